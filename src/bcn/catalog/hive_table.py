"""Records of a Hive Metastore, as Iceberg's HiveCatalog writes them: values in, values out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hive_metastore.ttypes import (
    Database,
    FieldSchema,
    PrincipalType,
    SerDeInfo,
    SkewedInfo,
    StorageDescriptor,
    Table,
)

from bcn.catalog.protocol import TABLE, VIEW, Pointer
from bcn.errors import UnsupportedCatalogError
from bcn.model import Json, TableId

METADATA_LOCATION = "metadata_location"
PREVIOUS_LOCATION = "previous_metadata_location"
LOCATION = "location"
_TABLE_TYPE = "table_type"
_KINDS = {"ICEBERG": TABLE, "ICEBERG-VIEW": VIEW}
_COMMENT = "comment"
_DATABASE_OWNER = "hive.metastore.database.owner"
_DATABASE_OWNER_TYPE = "hive.metastore.database.owner-type"
_TABLE_OWNER = "hive.metastore.table.owner"
_TRANSLATED = {"gc.enabled": "external.table.purge"}
_MAX_PARAMETER = 32672  # longer documents are not shown in the metastore
_FOREVER = (1 << 31) - 1

_PLAIN_FORMATS = (
    "org.apache.hadoop.mapred.FileInputFormat",
    "org.apache.hadoop.mapred.FileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
_ENGINE_FORMATS = tuple(  # of tables that Hive itself shall query
    f"org.apache.iceberg.mr.hive.HiveIceberg{name}"
    for name in ("InputFormat", "OutputFormat", "SerDe")
)
_STORAGE_HANDLER = "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"

_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "string",
    "string": "string",
    "uuid": "string",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "fixed": "binary",
    "binary": "binary",
    "variant": "unknown",
}
ZONED = "timestamp with local time zone"  # since Hive 3


def find_kind(record: Table) -> str | None:
    """Whether a record is Iceberg's table or view; None for all others."""
    return _KINDS.get((record.parameters or {}).get(_TABLE_TYPE, "").upper())


def find_pointer_of(record: Table) -> Pointer | None:
    """A record of Iceberg's as a pointer; None for others."""
    kind = find_kind(record)
    if kind is None:
        return None
    location = record.parameters.get(METADATA_LOCATION) or ""
    return Pointer(TableId((record.dbName,), record.tableName), location, kind)


# databases


def namespace_properties(database: Database) -> dict[str, str]:
    """A database's parameters, and its own fields under Iceberg's names."""
    properties = dict(database.parameters or {})
    fields = {
        LOCATION: database.locationUri,
        _COMMENT: database.description,
        _DATABASE_OWNER: database.ownerName,
    }
    properties.update({key: value for key, value in fields.items() if value})
    if database.ownerName and database.ownerType is not None:
        properties[_DATABASE_OWNER_TYPE] = PrincipalType._VALUES_TO_NAMES[database.ownerType]
    return properties


def make_database(
    name: str, properties: Mapping[str, str], default_location: str, user: str
) -> Database:
    """A database with these properties; its owner is the user unless they name one."""
    fields = (LOCATION, _COMMENT, _DATABASE_OWNER, _DATABASE_OWNER_TYPE)
    kinds = PrincipalType._NAMES_TO_VALUES
    return Database(
        name=name,
        description=properties.get(_COMMENT),
        locationUri=properties.get(LOCATION) or default_location,
        parameters={key: value for key, value in properties.items() if key not in fields},
        ownerName=properties.get(_DATABASE_OWNER) or user,
        ownerType=kinds.get(properties.get(_DATABASE_OWNER_TYPE, ""), PrincipalType.USER),
    )


# tables and views


def make_table(
    table: TableId, location: str, document: Json, user: str, *, zoned: bool = False
) -> Table:
    """The record by which a table of a metadata file appears."""
    properties = document.get("properties") or {}
    engine = str(properties.get("engine.hive.enabled")).lower() == "true"
    parameters = {
        "EXTERNAL": "TRUE",
        **{_TRANSLATED.get(key, key): value for key, value in _shown(properties)},
        **_own_parameters("ICEBERG", location, document.get("table-uuid"), _schema_of(document)),
        **_history_parameters(document),
        **_layout_parameters(document),
        "DO_NOT_UPDATE_STATS": "true",
    }
    parameters.pop("storage_handler", None)
    if engine:
        parameters["storage_handler"] = _STORAGE_HANDLER
    record = _make_record(table, document, user, zoned=zoned, engine=engine)
    record.parameters, record.tableType = parameters, "EXTERNAL_TABLE"
    return record


def make_view(
    view: TableId, location: str, document: Json, user: str, *, zoned: bool = False
) -> Table:
    """The record by which a view of a metadata file appears; Hive users see its SQL too."""
    record = _make_record(view, document, user, zoned=zoned)
    record.parameters = {
        **dict(_shown(document.get("properties") or {})),
        **_own_parameters(
            "ICEBERG-VIEW", location, document.get("view-uuid"), _schema_of(document)
        ),
    }
    record.tableType = "VIRTUAL_VIEW"
    record.viewOriginalText = record.viewExpandedText = _sql_of(document)
    return record


def _make_record(
    table: TableId, document: Json, user: str, *, zoned: bool, engine: bool = False
) -> Table:
    input_format, output_format, serde = _ENGINE_FORMATS if engine else _PLAIN_FORMATS
    descriptor = StorageDescriptor(
        cols=_columns(document, zoned=zoned),
        location=document.get("location"),
        inputFormat=input_format,
        outputFormat=output_format,
        compressed=False,
        numBuckets=0,
        serdeInfo=SerDeInfo(serializationLib=serde, parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        skewedInfo=SkewedInfo([], [], {}),
        storedAsSubDirectories=False,
    )
    owner = (document.get("properties") or {}).get(_TABLE_OWNER) or user
    return Table(
        tableName=table.name,
        dbName=table.namespace[0],
        owner=owner,
        retention=_FOREVER,
        sd=descriptor,
        partitionKeys=[],
    )


def _shown(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return (item for item in properties.items() if item[0].lower() != _TABLE_OWNER)


def _own_parameters(
    table_type: str, location: str, uuid: str | None, schema: Json
) -> dict[str, str]:
    parameters = {_TABLE_TYPE: table_type, METADATA_LOCATION: location}
    if uuid:
        parameters["uuid"] = uuid
    return {**parameters, **_document_parameter("current-schema", schema)}


def _document_parameter(key: str, document: Any) -> dict[str, str]:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return {key: text} if len(text) <= _MAX_PARAMETER else {}


def _history_parameters(document: Json) -> dict[str, str]:
    snapshots = document.get("snapshots") or ()
    parameters = {"snapshot-count": str(len(snapshots))}
    current_id = document.get("current-snapshot-id")
    current = next((item for item in snapshots if item["snapshot-id"] == current_id), None)
    if current is None:
        return parameters
    summary = dict(current.get("summary") or {})
    summary.pop("operation", None)
    totals = {
        "numFiles": summary.get("total-data-files"),
        "numRows": summary.get("total-records"),
        "totalSize": summary.get("total-files-size"),
    }
    return {
        **parameters,
        **{key: value for key, value in totals.items() if value is not None},
        "current-snapshot-id": str(current_id),
        "current-snapshot-timestamp-ms": str(current["timestamp-ms"]),
        **_document_parameter("current-snapshot-summary", summary),
    }


def _layout_parameters(document: Json) -> dict[str, str]:
    parameters: dict[str, str] = {}
    spec = _by_id(document.get("partition-specs"), "spec-id", document.get("default-spec-id"))
    if any(field.get("transform") != "void" for field in (spec or {}).get("fields") or ()):
        parameters |= _document_parameter("default-partition-spec", spec)
    order = _by_id(document.get("sort-orders"), "order-id", document.get("default-sort-order-id"))
    if (order or {}).get("fields"):
        parameters |= _document_parameter("default-sort-order", order)
    return parameters


def _by_id(found: Any, key: str, wanted: Any) -> Json | None:
    return next((item for item in found or () if item.get(key) == wanted), None)


def _schema_of(document: Json) -> Json:
    """The current schema, of a table or of a view's current version."""
    schemas = document.get("schemas") or ()
    current_id = document.get("current-schema-id")
    if "versions" in document:
        current_id = (_version_of(document) or {}).get("schema-id")
    return _by_id(schemas, "schema-id", current_id) or document.get("schema") or {"fields": []}


def _version_of(view: Json) -> Json | None:
    return _by_id(view.get("versions"), "version-id", view.get("current-version-id"))


def _sql_of(view: Json) -> str | None:
    """Hive's own dialect if the view has it, else its first."""
    representations = (_version_of(view) or {}).get("representations") or ()
    found = [item for item in representations if item.get("type") == "sql"]
    hive = [item for item in found if str(item.get("dialect")).lower() == "hive"]
    return next((item.get("sql") for item in (*hive, *found)), None)


# columns


def check_columns(table: TableId, document: Json, *, is_hive2: bool) -> None:
    """Raises UnsupportedCatalogError for columns that the metastore would refuse."""
    fields = _schema_of(document).get("fields") or ()
    names = Counter(str(field["name"]).lower() for field in fields)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise UnsupportedCatalogError(
            f"a Hive Metastore cannot hold {table}: it has columns that differ in case only:"
            f" {', '.join(twice)}",
            hint="restore it into another type of catalog, or --exclude it",
        )
    for field in fields:
        kind = _find_refused(field["type"], is_hive2=is_hive2)
        if kind is not None:
            raise UnsupportedCatalogError(
                f"a Hive Metastore cannot hold {table}: its column {field['name']!r} has type"
                f" {kind}, which Hive lacks",
                hint="restore it into another type of catalog, or --exclude it",
            )


def has_variant(document: Json) -> bool:
    """Whether Hive's version must be known to judge the columns."""
    return any(
        _find_refused(field["type"], is_hive2=True) == "variant"
        for field in _schema_of(document).get("fields") or ()
    )


def _find_refused(kind: Json | str, *, is_hive2: bool, nested: bool = False) -> str | None:
    """The first type inside that Hive has no word for; `unknown` is one since Hive 3, outermost."""
    if isinstance(kind, str):
        word = _word(kind)
        refused = is_hive2 or nested if word == "variant" else word not in {*_TYPES, "decimal"}
        return word if refused else None
    for inner in _inner_types(kind):
        found = _find_refused(inner, is_hive2=is_hive2, nested=True)
        if found is not None:
            return found
    return None


def _inner_types(kind: Json) -> list[Json | str]:
    if kind["type"] == "struct":
        return [field["type"] for field in kind["fields"]]
    return [kind["element"]] if kind["type"] == "list" else [kind["key"], kind["value"]]


def _columns(document: Json, *, zoned: bool) -> list[FieldSchema]:
    fields = _schema_of(document).get("fields") or ()
    return [
        FieldSchema(field["name"], hive_type(field["type"], zoned=zoned), field.get("doc"))
        for field in fields
    ]


def hive_type(kind: Json | str, *, zoned: bool = False) -> str:
    """A type of Iceberg by Hive's name; `zoned` if Hive knows times with a zone."""
    if isinstance(kind, str):
        word = _word(kind)
        if word == "decimal":
            return kind.replace(" ", "")
        return ZONED if zoned and word == "timestamptz" else _TYPES[word]
    inner = [hive_type(item, zoned=zoned) for item in _inner_types(kind)]
    if kind["type"] == "struct":
        names = (field["name"] for field in kind["fields"])
        pairs = (f"{name}:{text}" for name, text in zip(names, inner, strict=True))
        return f"struct<{','.join(pairs)}>"
    return f"{'array' if kind['type'] == 'list' else 'map'}<{','.join(inner)}>"


def _word(kind: str) -> str:
    return kind.partition("(")[0].partition("[")[0].strip()
