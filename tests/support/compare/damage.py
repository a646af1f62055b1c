"""Ways to spoil a perfect restore, each with the rules that it breaks."""

from __future__ import annotations

import pyarrow as pa

from tests.support.compare.avro import AvroFile
from tests.support.compare.paths import local_path
from tests.support.compare.twins import (
    Record,
    Twins,
    edit_avro,
    edit_document,
    edit_entry,
    edit_manifest,
)
from tests.support.shapes.craft import (
    PATH_FIELD,
    POS_FIELD,
    puffin_bytes,
    vector_blob,
    vector_entry,
    write_parquet,
    write_position_deletes,
)

# Damage to version 2


def stale_bounds(twins: Twins) -> None:
    def change(file: Record) -> None:
        for bounds in ("lower_bounds", "upper_bounds"):
            file[bounds][0]["value"] = f"{twins.old}/data/f0.parquet".encode()

    edit_entry(twins, "one.parquet", change)


def half_a_bound(twins: Twins) -> None:
    edit_entry(twins, "both.parquet", lambda file: file.update(lower_bounds=None))


def bounds_out_of_nowhere(twins: Twins) -> None:
    def change(file: Record) -> None:
        file["lower_bounds"][0]["value"] = f"{twins.new}/data/f1.parquet".encode()

    edit_entry(twins, "both.parquet", change)


def bounds_too_low(twins: Twins) -> None:
    def change(file: Record) -> None:
        file["upper_bounds"][0]["value"] = f"{twins.new}/data/f0.parquet".encode()

    edit_entry(twins, "both.parquet", change)


def stale_reference(twins: Twins) -> None:
    name = f"{twins.old}/data/f0.parquet"
    edit_entry(twins, "one.parquet", lambda file: file.update(referenced_data_file=name))


def _set_size(twins: Twins, name: str) -> None:
    size = twins.path(f"data/{name}").stat().st_size
    edit_entry(twins, name, lambda file: file.update(file_size_in_bytes=size))


def stale_delete_rows(twins: Twins) -> None:
    name = f"{twins.old}/data/f0.parquet"
    write_position_deletes(twins.path("data/one.parquet"), [(name, 1), (name, 4)])
    _set_size(twins, "one.parquet")


def lost_delete_row(twins: Twins) -> None:
    name = f"{twins.new}/data/f0.parquet"
    write_position_deletes(twins.path("data/one.parquet"), [(name, 1)])
    _set_size(twins, "one.parquet")


def unsorted_delete_rows(twins: Twins) -> None:
    name = f"{twins.new}/data/f0.parquet"
    write_position_deletes(twins.path("data/one.parquet"), [(name, 4), (name, 1)])
    _set_size(twins, "one.parquet")


def lost_delete_type(twins: Twins) -> None:
    name = f"{twins.new}/data/f0.parquet"
    path = twins.path("data/one.parquet")
    write_parquet(path, [PATH_FIELD, POS_FIELD], [[name, name], [1, 4]])
    _set_size(twins, "one.parquet")


def lost_field_ids(twins: Twins) -> None:
    name = f"{twins.new}/data/f0.parquet"
    fields = [pa.field("file_path", pa.string(), nullable=False), pa.field("pos", pa.int64())]
    path = twins.path("data/one.parquet")
    write_parquet(path, fields, [[name, name], [1, 4]], {"delete-type": "position"})
    _set_size(twins, "one.parquet")


def wrong_size(twins: Twins) -> None:
    edit_entry(twins, "one.parquet", lambda file: file.update(file_size_in_bytes=7))


def wrong_size_of_a_tombstone(twins: Twins) -> None:
    def change(file: AvroFile) -> None:
        file.records[0]["data_file"]["file_size_in_bytes"] = 7

    edit_manifest(twins, change)


def wrong_length(twins: Twins) -> None:
    def change(file: AvroFile) -> None:
        file.records[-1]["manifest_length"] += 1

    edit_avro(twins.path("metadata/snap-1.avro"), change)


def changed_equality_deletes(twins: Twins) -> None:
    path = twins.path("data/equal.parquet")
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2", 1))


# Damage to version 3


def _write_vectors(twins: Twins, root: str, blobs: list[bytes]) -> None:
    names = [f"{root}/data/f0.parquet", f"{root}/data/f1.parquet"]
    entries = [(vector_entry(n, 2), b) for n, b in zip(names, blobs, strict=True)]
    twins.path("data/vectors.puffin").write_bytes(puffin_bytes(entries))
    size = twins.path("data/vectors.puffin").stat().st_size

    def change(file: AvroFile) -> None:
        for record in file.records:
            if record["status"] != 2:
                record["data_file"]["file_size_in_bytes"] = size

    edit_manifest(twins, change)


def stale_footer(twins: Twins) -> None:
    _write_vectors(twins, twins.old, [vector_blob([1, 4]), vector_blob([2, 3])])


def changed_blob(twins: Twins) -> None:
    _write_vectors(twins, twins.new, [vector_blob([1, 4]), vector_blob([2, 5])])


def stale_vector_reference(twins: Twins) -> None:
    name = f"{twins.old}/data/f0.parquet"
    edit_entry(twins, "vectors.puffin", lambda file: file.update(referenced_data_file=name))


def wrong_offset(twins: Twins) -> None:
    edit_entry(twins, "vectors.puffin", lambda file: file.update(content_offset=5))


def size_of_one_vector_only(twins: Twins) -> None:
    edit_entry(twins, "vectors.puffin", lambda file: file.update(file_size_in_bytes=1))


def lost_footer(twins: Twins) -> None:
    twins.path("data/vectors.puffin").write_bytes(vector_blob([1, 4]))


def invented_row_id(twins: Twins) -> None:
    def change(file: AvroFile) -> None:
        file.records[0]["data_file"]["first_row_id"] = 0

    edit_manifest(twins, change, "m0")


# Damage to any version


def leftover_root_in_a_property(twins: Twins) -> None:
    edit_document(twins, lambda d: d["properties"].update({"write.data.path": f"{twins.old}/data"}))


def leftover_root_in_a_header(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.header.update({"extra": f"{twins.old}/x".encode()}))


def leftover_location(twins: Twins) -> None:
    edit_document(twins, lambda d: d.update(location=twins.old))


def leftover_data_path(twins: Twins) -> None:
    def change(file: AvroFile) -> None:
        file.records[0]["data_file"]["file_path"] = f"{twins.old}/data/f0.parquet"

    edit_manifest(twins, change, "m0")


def leftover_manifest_path(twins: Twins) -> None:
    def change(file: AvroFile) -> None:
        file.records[0]["manifest_path"] = f"{twins.old}/metadata/m0.avro"

    edit_avro(twins.path("metadata/snap-1.avro"), change)


def missing_data_file(twins: Twins) -> None:
    twins.path("data/f1.parquet").unlink()


def changed_data_file(twins: Twins) -> None:
    path = twins.path("data/f1.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def missing_manifest(twins: Twins) -> None:
    twins.path("metadata/m0.avro").unlink()


def missing_statistics(twins: Twins) -> None:
    twins.path("metadata/twin.stats").unlink()


def changed_statistics(twins: Twins) -> None:
    path = twins.path("metadata/twin.stats")
    path.write_bytes(path.read_bytes().replace(b"sketch", b"sketsh"))


def wrong_statistics_size(twins: Twins) -> None:
    edit_document(twins, lambda d: d["statistics"][0].update({"file-size-in-bytes": 1}))


def dropped_unknown_key(twins: Twins) -> None:
    edit_document(twins, lambda d: d.pop("unknown-key"))


def reprinted_number(twins: Twins) -> None:
    path = local_path(twins.restored)
    path.write_text(path.read_text().replace('"kept": 0.1', '"kept": 0.10'))


def other_key_order(twins: Twins) -> None:
    edit_document(twins, lambda d: d.update(location=d.pop("location")))


def null_for_absent(twins: Twins) -> None:
    edit_document(twins, lambda d: d["snapshots"][0].update({"parent-snapshot-id": None}))


def lost_snapshot(twins: Twins) -> None:
    edit_document(twins, lambda d: d["snapshots"].pop())


def added_property(twins: Twins) -> None:
    edit_document(twins, lambda d: d["properties"].update({"origin": "elsewhere"}))


def lost_uuid(twins: Twins) -> None:
    edit_document(twins, lambda d: d.pop("table-uuid"))


def dangling_log(twins: Twins) -> None:
    gone = {"metadata-file": f"{twins.new}/metadata/gone.metadata.json", "timestamp-ms": 1}
    edit_document(twins, lambda d: d.update({"metadata-log": [gone]}))


def explicit_sequence_number(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.records[1].update(sequence_number=2))


def lost_sequence_number(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.records[0].update(sequence_number=None))


def swapped_entries(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.records.reverse(), "m0")


def dropped_tombstone(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.records.pop(0) and None)


def other_codec(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.header.update({"avro.codec": b"null"}))


def lost_header_key(twins: Twins) -> None:
    edit_manifest(twins, lambda file: file.header.pop("partition-spec") and None)


def wrong_list_header(twins: Twins) -> None:
    edit_avro(
        twins.path("metadata/snap-1.avro"),
        lambda file: file.header.update({"parent-snapshot-id": b"null"}),
    )


def swapped_manifests(twins: Twins) -> None:
    edit_avro(twins.path("metadata/snap-1.avro"), lambda file: file.records.reverse())


V2 = {
    stale_bounds: "G3 G4 G5",
    half_a_bound: "G3",
    bounds_out_of_nowhere: "G5",
    bounds_too_low: "G5",
    stale_reference: "G3 G4 G5",
    stale_delete_rows: "G4 G5",
    lost_delete_row: "G5",
    unsorted_delete_rows: "G5",
    lost_delete_type: "G5",
    lost_field_ids: "G5",
    wrong_size: "G5",
    wrong_size_of_a_tombstone: "G5",
    wrong_length: "G5",
    changed_equality_deletes: "G5",
}
V3 = {
    stale_footer: "G4 G5",
    changed_blob: "G5",
    stale_vector_reference: "G3 G4 G5",
    wrong_offset: "G3 G5",
    size_of_one_vector_only: "G5",
    lost_footer: "G5",
    invented_row_id: "G3",
}
ANY = {
    leftover_root_in_a_property: "G2 G4",
    leftover_root_in_a_header: "G3 G4",
    leftover_location: "G2 G4",
    leftover_data_path: "G3 G4",
    leftover_manifest_path: "G3 G4",
    missing_data_file: "G5",
    changed_data_file: "G5",
    missing_manifest: "G5",
    missing_statistics: "G5",
    changed_statistics: "G5",
    wrong_statistics_size: "G2 G5",
    dropped_unknown_key: "G2",
    reprinted_number: "G2",
    other_key_order: "G2",
    null_for_absent: "G2",
    lost_snapshot: "G2",
    added_property: "G2",
    lost_uuid: "G2",
    dangling_log: "G5",
    explicit_sequence_number: "G3",
    lost_sequence_number: "G3",
    swapped_entries: "G3",
    dropped_tombstone: "G3",
    other_codec: "G3",
    lost_header_key: "G3",
    wrong_list_header: "G3",
    swapped_manifests: "G3",
}
