"""From settings to a catalog; an implementation is imported when it is picked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.errors import SettingsError


@dataclass(frozen=True, slots=True)
class CatalogType:
    """Properties that a type knows by plain names; dotted ones (`s3.endpoint`) are always taken."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    names_warehouse: bool = False  # a warehouse may be a name, so it is taken as it is written

    @property
    def known(self) -> tuple[str, ...]:
        """All of them."""
        return self.required + self.optional


CATALOG_TYPES: Mapping[str, CatalogType] = {
    "glue": CatalogType(required=(), optional=("name", "warehouse", "py-io-impl")),
    "hadoop": CatalogType(required=("warehouse",), optional=("name",)),
    # What pyiceberg's HiveCatalog knows; locks are of commits, and bcn commits nothing.
    "hive": CatalogType(
        required=("uri",),
        optional=(
            "name",
            "warehouse",
            "ugi",
            "lock-check-min-wait-time",
            "lock-check-max-wait-time",
            "lock-check-retries",
            "py-io-impl",
        ),
    ),
    # What pyiceberg's RestCatalog knows; its warehouse may be a name that only the server knows.
    "rest": CatalogType(
        required=("uri",),
        optional=(
            "name",
            "warehouse",
            "token",
            "credential",
            "oauth2-server-uri",
            "scope",
            "audience",
            "resource",
            "prefix",
            "rest-page-size",
            "namespace-separator",
            "view-endpoints-supported",
            "snapshot-loading-mode",
            "scan-planning-mode",
            "py-io-impl",
        ),
        names_warehouse=True,
    ),
    # Beside our own: what pyiceberg's SqlCatalog knows, so that one section serves both.
    "sql": CatalogType(
        required=("uri",),
        optional=(
            "name",
            "warehouse",
            "echo",
            "pool_pre_ping",
            "init_catalog_tables",
            "schema_version",
            "py-io-impl",
        ),
    ),
}


def open_catalog(settings: CatalogSettings) -> Catalog:
    """The catalog that settings describe; it holds no connection, so there is nothing to close.

    Raises SettingsError. Nothing is read yet: what is missing shows when it is needed.
    """
    kind = CATALOG_TYPES.get(settings.type)
    if kind is None:
        known = ", ".join(sorted(CATALOG_TYPES))
        raise SettingsError(
            f"catalog {settings.name!r} has unknown type {settings.type!r}: known are {known}"
        )
    for key in kind.required:
        if not settings.properties.get(key):
            raise SettingsError(f"catalog {settings.name!r} has no {key!r}")
    if settings.type == "hadoop":
        from bcn.catalog.hadoop import HadoopCatalog  # noqa: PLC0415  a factory imports what it picked

        return HadoopCatalog(settings)
    if settings.type == "glue":
        from bcn.catalog.glue import GlueCatalog  # noqa: PLC0415  a factory imports what it picked

        return GlueCatalog(settings)
    if settings.type == "hive":
        from bcn.catalog.hive import HiveCatalog  # noqa: PLC0415  a factory imports what it picked

        return HiveCatalog(settings)
    if settings.type == "rest":
        from bcn.catalog.rest import RestCatalog  # noqa: PLC0415  a factory imports what it picked

        return RestCatalog(settings)
    from bcn.catalog.sql import SqlCatalog  # noqa: PLC0415  a factory imports what it picked

    return SqlCatalog(settings)
