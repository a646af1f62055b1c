"""Tables that must be refused with a precise message: T23 encrypted, T24 of version 4."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.support.shapes.basic import COLUMNS, numbered
from tests.support.shapes.craft import edit_document, forget_checksum, write_avro
from tests.support.shapes.model import Claim, Shape, World, create

_KEYS = [
    {
        "key-id": "k1",
        "encrypted-key-metadata": "b3BhcXVlIGtleSBtYXRlcmlhbA==",
        "encrypted-by-id": "master",
        "properties": {"key-timestamp": "1700000000000"},
    }
]


def _plain(world: World, table: str) -> None:
    name = create(world, table, COLUMNS, 3)
    world.sql(f"INSERT INTO {name} {numbered(1, 3)}")


def build_t23_keys(world: World) -> None:
    _plain(world, "shapes.t23_keys")

    def add_keys(document: Any) -> None:
        document["encryption-keys"] = _KEYS
        document["snapshots"][0]["key-id"] = "k1"

    edit_document(world, "shapes.t23_keys", add_keys)


def claims_t23_keys(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t23_keys").document
    yield "keys", document["encryption-keys"] == _KEYS
    yield "a snapshot names one", document["snapshots"][0]["key-id"] == "k1"


def build_t23_property(world: World) -> None:
    _plain(world, "shapes.t23_property")

    def add_property(document: Any) -> None:
        document["properties"]["encryption.key-id"] = "master"

    edit_document(world, "shapes.t23_property", add_property)


def claims_t23_property(world: World) -> Iterator[Claim]:
    properties = world.tree("shapes.t23_property").document["properties"]
    yield "the property", properties["encryption.key-id"] == "master"


def build_t23_file(world: World) -> None:
    """Only a data file's entry has key metadata."""
    _plain(world, "shapes.t23_file")
    tree = world.tree("shapes.t23_file")
    (manifest,) = tree.manifests()
    tree.avro(manifest).records[0]["data_file"]["key_metadata"] = b"opaque"
    _set_lengths(tree, write_avro(tree.file(manifest), tree.avro(manifest)))


def claims_t23_file(world: World) -> Iterator[Claim]:
    (entry,) = world.tree("shapes.t23_file").iter_entries()
    yield "key metadata", entry.file["key_metadata"] == b"opaque"


def build_t23_stream(world: World) -> None:
    """The manifest itself is an AES-GCM stream, and the list has its key metadata."""
    _plain(world, "shapes.t23_stream")
    tree = world.tree("shapes.t23_stream")
    (manifest,) = tree.manifests()
    path = tree.file(manifest)
    path.write_bytes(b"AGS1" + (1 << 20).to_bytes(4, "little") + os.urandom(400))
    forget_checksum(path)
    for location in tree.lists():
        tree.avro(location).records[0]["key_metadata"] = b"opaque"
    _set_lengths(tree, path.stat().st_size)


def _set_lengths(tree: Any, size: int) -> None:
    for location in tree.lists():
        for record in tree.avro(location).records:
            record["manifest_length"] = size
        write_avro(tree.file(location), tree.avro(location))


def claims_t23_stream(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t23_stream")
    (manifest,) = tree.manifests()
    yield "an encrypted stream", tree.file(manifest).read_bytes()[:4] == b"AGS1"


def build_t24(world: World) -> None:
    """A version that is not finished yet: relative paths, and no location at all."""
    _plain(world, "shapes.t24")

    def upgrade(document: Any) -> None:
        location = document.pop("location")
        document["format-version"] = 4
        for snapshot in document["snapshots"]:
            snapshot["manifest-list"] = snapshot["manifest-list"].removeprefix(f"{location}/")

    edit_document(world, "shapes.t24", upgrade)


def claims_t24(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t24").document
    yield "version 4", document["format-version"] == 4
    yield "a relative path", document["snapshots"][0]["manifest-list"].startswith("metadata/")


_refused = partial(Shape, pyiceberg=False, spark=False, notes="must be refused")
REFUSED_SHAPES = (
    _refused(
        "T23/keys",
        "encryption keys in the metadata",
        "shapes.t23_keys",
        build_t23_keys,
        claims_t23_keys,
    ),
    _refused(
        "T23/property",
        "the property of an encrypted table",
        "shapes.t23_property",
        build_t23_property,
        claims_t23_property,
    ),
    _refused(
        "T23/file",
        "key metadata of a data file",
        "shapes.t23_file",
        build_t23_file,
        claims_t23_file,
    ),
    _refused(
        "T23/stream",
        "an encrypted manifest",
        "shapes.t23_stream",
        build_t23_stream,
        claims_t23_stream,
    ),
    _refused("T24", "format version 4", "shapes.t24", build_t24, claims_t24),
)
