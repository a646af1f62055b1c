"""JSON documents of the repository: rendering, checksums, versions."""

from __future__ import annotations

import json
import re

from bcn.errors import DamagedRepositoryError, NewerVersionError
from bcn.model import Json, sha256

VERSION = "1"
_VERSION = re.compile(r"[0-9]{1,9}")


def render_document(document: Json) -> bytes:
    """For people: indented, in the order written, one newline at the end."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )


def parse_document(data: bytes, key: str) -> Json:
    """A document of a version we know. Raises DamagedRepositoryError or NewerVersionError."""
    try:
        document = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise DamagedRepositoryError(f"{key} is not a whole JSON document: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("version"), str):
        raise DamagedRepositoryError(f"{key} is not a document of a repository")
    if not _VERSION.fullmatch(document["version"]):
        raise DamagedRepositoryError(
            f"{key} has no version that bcn knows: {document['version']!r}"
        )
    if int(document["version"]) > int(VERSION):
        raise NewerVersionError(
            f"{key} has version {document['version']}, this bcn knows {VERSION}"
        )
    return document


def checksum(document: Json, field: str) -> str:
    """SHA-256 over sorted keys, no spaces, the field itself left out."""
    content = {key: value for key, value in document.items() if key != field}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass"))


def with_checksum(document: Json, field: str) -> Json:
    """The document with its checksum as the last key."""
    return {**document, field: checksum(document, field)}


def check_checksum(document: Json, field: str, key: str) -> None:
    """Raises DamagedRepositoryError if the document is not what was written."""
    if document.get(field) != checksum(document, field):
        raise DamagedRepositoryError(f"{key} was changed: its {field} does not match")
