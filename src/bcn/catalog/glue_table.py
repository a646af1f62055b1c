"""Records of AWS Glue, as Iceberg's GlueCatalog writes them: values in, values out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bcn.model import Json

TABLE_TYPE = "table_type"
METADATA_LOCATION = "metadata_location"
PREVIOUS_LOCATION = "previous_metadata_location"
_ICEBERG = "ICEBERG"
_COMMENT, _LOCATION = "comment", "location"
_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
# What Glue takes at most. Columns are there for people and other engines: Iceberg's readers take
# theirs from the metadata file, so one that does not fit is cut or left out.
_MAX_NAME, _MAX_TYPE, _MAX_COMMENT, _MAX_DESCRIPTION = 255, 131_072, 255, 2048

_TYPES = {
    "long": "bigint",
    "time": "string",
    "uuid": "string",
    "timestamptz": "timestamp",
    "timestamptz_ns": "timestamp_nano",
    "timestamp_ns": "timestamp_nano",
}


def is_iceberg(record: Mapping[str, Any]) -> bool:
    """Whether a table of Glue is one of Iceberg's."""
    parameters = record.get("Parameters") or {}
    return str(parameters.get(TABLE_TYPE, "")).upper() == _ICEBERG


def namespace_properties(record: Mapping[str, Any]) -> dict[str, str]:
    """A database's parameters, its location and its description, under Iceberg's names."""
    properties = dict(record.get("Parameters") or {})
    if record.get("LocationUri"):
        properties[_LOCATION] = record["LocationUri"]
    if record.get("Description"):
        properties[_COMMENT] = record["Description"]
    return properties


def database_input(name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """What makes a database with these properties."""
    own = {_LOCATION: "LocationUri", _COMMENT: "Description"}
    fields = {own[key]: value for key, value in properties.items() if key in own and value}
    parameters = {key: value for key, value in properties.items() if own.get(key) not in fields}
    return {"Name": name, **fields, "Parameters": parameters}


def table_input(name: str, metadata_location: str, document: Json) -> dict[str, Any]:
    """What makes a table of a metadata file appear."""
    properties = document.get("properties") or {}
    descriptor: dict[str, Any] = {"Columns": list(_columns(document))}
    if document.get("location"):
        descriptor["Location"] = document["location"]
    places = sorted({properties[key] for key in _PLACES if properties.get(key)})
    if places:
        descriptor["AdditionalLocations"] = places
    made: dict[str, Any] = {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {TABLE_TYPE: _ICEBERG, METADATA_LOCATION: metadata_location},
        "StorageDescriptor": descriptor,
    }
    if properties.get(_COMMENT):
        made["Description"] = properties[_COMMENT][:_MAX_DESCRIPTION]
    return made


def _columns(document: Json) -> Iterator[dict[str, Any]]:
    """Columns of the current schema, then those that only older ones have, each name once."""
    current_id = document.get("current-schema-id")
    schemas = document.get("schemas") or [document.get("schema") or {}]
    named: set[str] = set()
    for schema in sorted(schemas, key=lambda schema: schema.get("schema-id") != current_id):
        is_current = len(schemas) == 1 or schema.get("schema-id") == current_id
        for field in schema.get("fields") or ():
            column = _column(field, is_current=is_current)
            if column["Name"] not in named and _fits(column):
                named.add(column["Name"])
                yield column


def _column(field: Json, *, is_current: bool) -> dict[str, Any]:
    parameters = {
        "iceberg.field.id": str(field["id"]),
        "iceberg.field.optional": str(not field.get("required")).lower(),
        "iceberg.field.current": str(is_current).lower(),
    }
    column = {"Name": field["name"], "Type": glue_type(field["type"]), "Parameters": parameters}
    if field.get("doc"):
        column["Comment"] = field["doc"][:_MAX_COMMENT]
    return column


def _fits(column: Mapping[str, Any]) -> bool:
    return 0 < len(column["Name"]) <= _MAX_NAME and len(column["Type"]) <= _MAX_TYPE


def glue_type(kind: Json | str) -> str:
    """A type of Iceberg by Glue's name."""
    if isinstance(kind, str):
        return _plain_type(kind)
    if kind["type"] == "struct":
        fields = (f"{field['name']}:{glue_type(field['type'])}" for field in kind["fields"])
        return f"struct<{','.join(fields)}>"
    if kind["type"] == "list":
        return f"array<{glue_type(kind['element'])}>"
    return f"map<{glue_type(kind['key'])},{glue_type(kind['value'])}>"


def _plain_type(kind: str) -> str:
    word, _, arguments = kind.partition("(")
    if word == "decimal":
        return f"decimal({arguments.replace(' ', '')}"
    if word.startswith("fixed"):
        return "binary"
    return _TYPES.get(word, word)
