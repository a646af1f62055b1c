"""A `[catalogs.NAME]` section as Spark spells it, so that Spark opens the same catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.spark_stores import (
    RESOLVING,
    environment,
    file_io,
    find_aws,
    hadoop_s3,
    is_remote,
    scheme_of,
    uses_s3,
)
from bcn.errors import SettingsError

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CATALOG = "org.apache.iceberg.spark.SparkCatalog"

ICEBERG_VERSION = "1.12.0"
HADOOP_VERSION = "3.4.2"  # the one that PySpark brings
AWS_VERSION = "2.54.17"  # the one in Iceberg's bundle
_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
_AWS = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}"
_GCP = f"org.apache.iceberg:iceberg-gcp-bundle:{ICEBERG_VERSION}"
_AZURE = f"org.apache.iceberg:iceberg-azure-bundle:{ICEBERG_VERSION}"
# Without the SDK's own bundle of 600 MB: Iceberg's has all of it that these need.
_S3A = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",
    f"software.amazon.awssdk:s3-transfer-manager:{AWS_VERSION}",
    f"software.amazon.awssdk:apache-client:{AWS_VERSION}",
)
S3A_EXCLUDED = "software.amazon.awssdk:bundle"
_DRIVERS = {
    "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    "postgresql": "org.postgresql:postgresql:42.7.8",
}

# What Iceberg's REST client and ours call the same.
_REST = (
    *("warehouse", "token", "credential", "oauth2-server-uri", "scope", "audience", "resource"),
    *("prefix", "rest-page-size", "snapshot-loading-mode"),
)
_REST_PREFIXES = ("header.", "rest.", "oauth2.")
# How bcn gets in, and Spark has no setting for, or none that bcn could give it.
_NOT_TOLD = ("auth.", "ssl.", "s3.role-", "client.role-", "glue.role-")
_NOT_TOLD_EXACTLY = ("adls.sas-token", "adls.connection-string")
_DELEGATION = "header.X-Iceberg-Access-Delegation"


@dataclass(frozen=True, slots=True)
class SparkSide:
    """Settings of a Spark session, and variables of its driver's environment. Both hold secrets."""

    name: str  # what Spark calls the catalog
    packages: tuple[str, ...]
    settings: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    left_out: tuple[str, ...] = ()  # properties of the section that Spark is not told of

    @property
    def prefix(self) -> str:
        """What the catalog's own settings begin with."""
        return f"spark.sql.catalog.{self.name}."

    @property
    def excludes(self) -> tuple[str, ...]:
        """What must not come with the packages."""
        return (S3A_EXCLUDED,) if set(_S3A) <= set(self.packages) else ()


@dataclass(slots=True)
class _Side:
    """What one type of catalog needs."""

    options: dict[str, str]
    packages: tuple[str, ...] = ()
    keys: dict[str, str] = field(default_factory=dict)  # variables, beside those of the stores


def spark_side(settings: CatalogSettings) -> SparkSide:
    """How Spark opens a catalog. Raises SettingsError where it cannot."""
    name = settings.properties.get("name", settings.name)
    if not name or "." in name:
        raise SettingsError(
            f"Spark can have no catalog of the name {name!r}", hint="its names hold no dot"
        )
    make = _TYPES.get(settings.type)
    if make is None:
        raise SettingsError(f"catalog {settings.name!r} has unknown type {settings.type!r}")
    side = make(settings)
    prefix = f"spark.sql.catalog.{name}"
    options = {f"{prefix}.{key}": value for key, value in _filled(side.options).items()}
    return SparkSide(
        name,
        (_RUNTIME, *_store_packages(settings), *side.packages),
        {"spark.sql.extensions": EXTENSIONS, prefix: CATALOG, **options},
        _filled({**environment(settings.properties), **side.keys}),
        tuple(sorted(filter(_is_left_out, settings.properties))),
    )


def _filled(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def _is_left_out(key: str) -> bool:
    return key.startswith(_NOT_TOLD) or key in _NOT_TOLD_EXACTLY


def _hadoop(settings: CatalogSettings) -> _Side:
    """Hadoop's own file systems list and rename; what they need stays with this catalog."""
    properties = settings.properties
    options = {"type": "hadoop", "warehouse": properties["warehouse"]}
    options |= {f"hadoop.{key}": value for key, value in hadoop_s3(properties).items()}
    return _Side(options, _S3A if uses_s3(properties) else ())


def _sql(settings: CatalogSettings) -> _Side:
    """JDBC's address of the same database; user and password are no part of it."""
    from sqlalchemy import make_url  # noqa: PLC0415  costs time
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415  costs time

    properties = settings.properties
    try:
        url = make_url(properties["uri"])
    except ArgumentError:
        raise SettingsError(f"'uri' of catalog {settings.name!r} is no database address") from None
    kind = url.get_backend_name()
    if kind not in _DRIVERS:
        raise SettingsError(
            f"catalog {settings.name!r} is in a {kind} database, which bcn cannot name to Spark",
            hint=f"known are {', '.join(sorted(_DRIVERS))}",
        )
    address = f"jdbc:sqlite:{Path(url.database or '').absolute()}"
    if kind != "sqlite":
        port = f":{url.port}" if url.port else ""
        more = "&".join(f"{key}={value}" for key, value in url.query.items())
        address = f"jdbc:{kind}://{url.host or 'localhost'}{port}/{url.database or ''}"
        address += f"?{more}" if more else ""
    # Without a schema version Spark takes the database's own; with one it would alter an old one.
    options = {
        "type": "jdbc",
        "uri": address,
        "warehouse": properties.get("warehouse", ""),
        "jdbc.user": url.username or "",
        "jdbc.password": url.password or "",
        **file_io(properties),
    }
    return _Side(options, (_DRIVERS[kind],))


def _hive(settings: CatalogSettings) -> _Side:
    properties = settings.properties
    options = {
        "type": "hive",
        "uri": properties["uri"],
        "warehouse": properties.get("warehouse", ""),
        **file_io(properties),
    }
    return _Side(options)


def _rest(settings: CatalogSettings) -> _Side:
    """Iceberg's client asks for grants only if it is told to; ours always does."""
    properties = settings.properties
    options = {"type": "rest", "uri": properties["uri"], **file_io(properties)}
    options |= {key: properties[key] for key in _REST if key in properties}
    options |= {key: value for key, value in properties.items() if key.startswith(_REST_PREFIXES)}
    if not find_aws(properties, "access-key-id"):
        options.setdefault(_DELEGATION, "vended-credentials")
    return _Side(options)


def _glue(settings: CatalogSettings) -> _Side:
    """Iceberg's Glue client takes keys from the environment only."""
    properties = settings.properties
    region = find_aws(properties, "region", "glue") or find_aws(properties, "region")
    options = {
        "type": "glue",
        "warehouse": properties.get("warehouse", ""),
        **{key: properties.get(key, "") for key in ("glue.endpoint", "glue.id")},
        "glue.skip-archive": properties.get("glue.skip-archive", ""),
        **file_io(properties),
    }
    if region:
        options["client.region"] = region
    if not is_remote(properties.get("warehouse", "")):
        options["io-impl"] = RESOLVING  # by itself it takes all files for ones on S3
    keys = {
        "AWS_ACCESS_KEY_ID": find_aws(properties, "access-key-id", "glue"),
        "AWS_SECRET_ACCESS_KEY": find_aws(properties, "secret-access-key", "glue"),
        "AWS_SESSION_TOKEN": find_aws(properties, "session-token", "glue"),
        "AWS_PROFILE": find_aws(properties, "profile-name", "glue"),
    }
    return _Side(options, (), _filled(keys))


def _store_packages(settings: CatalogSettings) -> tuple[str, ...]:
    """Bundles of the clouds' own libraries, for the stores that a section names."""
    properties = settings.properties
    scheme = scheme_of(properties.get("warehouse", ""))
    wanted = {
        _AWS: uses_s3(properties) or settings.type == "glue",
        _GCP: scheme == "gs" or any(key.startswith("gcs.") for key in properties),
        _AZURE: scheme in {"abfs", "abfss", "wasb", "wasbs"}
        or any(key.startswith("adls.") for key in properties),
    }
    return tuple(package for package, is_wanted in wanted.items() if is_wanted)


_TYPES: Mapping[str, Callable[[CatalogSettings], _Side]] = {
    "glue": _glue,
    "hadoop": _hadoop,
    "hive": _hive,
    "rest": _rest,
    "sql": _sql,
}
