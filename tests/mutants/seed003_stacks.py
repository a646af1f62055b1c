"""Seed 003, group 7: the step without which each test fails."""

from __future__ import annotations

from tests.mutants.seed003_step import steps

MUTANTS = steps(
    "test_multi_stack.py",
    (
        "local_minio_backup_single_table",
        "of a catalog's settings only what is public is stored",
        "catalog/hive.py",
        '        properties = {"type": "hive", "uri": addresses}\n',
        '        properties = {**self.access.properties, "type": "hive", "uri": addresses}\n',
    ),
    (
        "local_minio_incremental_backup",
        "an object that was not written again has the version that it had",
        "storage/s3.py",
        "words = (tag, ",
        "words = (__import__('uuid').uuid4().hex, tag, ",
    ),
    (
        "local_hive_metadata_restore",
        "Hive is told the columns",
        "catalog/hive_table.py",
        "        cols=_columns(document, zoned=zoned),\n",
        "        cols=[],\n",
    ),
    (
        "aws_s3_backup_single_table",
        "keys for all of AWS open S3 too",
        "storage/s3_settings.py",
        'self.properties.get(f"s3.{name}") or self.properties.get(f"client.{name}") or ""',
        'self.properties.get(f"s3.{name}") or ""',
    ),
    (
        "aws_s3_incremental_backup",
        "a manifest that is known is not read again",
        "backup/work.py",
        "    return row.recorded_size_bytes == work.known[identity]",
        "    return False",
    ),
    (
        "aws_glue_metadata_handling",
        "Glue is told which columns are of today",
        "catalog/glue_table.py",
        "str(is_current).lower()",
        '"true"',
    ),
    (
        "aws_glue_vs_hive_compatibility",
        "an instant has the word in Glue that it has in Hive",
        "catalog/glue_table.py",
        '    "timestamptz": "timestamp",\n',
        "",
    ),
    (
        "restore_from_local_to_aws",
        "position deletes name the data files where they are now",
        "iceberg/deletes.py",
        "    if not paths.moved:\n        return paths.of(data)\n    written = _write_parquet(",
        "    if True:\n        return paths.of(data)\n    written = _write_parquet(",
    ),
)
