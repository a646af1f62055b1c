"""Variables of stacks that have no settings file: a Hive Metastore and a MinIO, each in one.

`HIVE_METASTORE_URI`, `S3_ENDPOINT`, `S3_ACCESS_KEY`, `S3_SECRET_KEY`, `WAREHOUSE_BUCKET` and
`BACKUP_BUCKET` give the catalog `hive_catalog` and the repository `backup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bcn.config.sections import Entry, Section, Sections

CATALOG, REPOSITORY = "hive_catalog", "backup"
_FOLDER = "bcn"  # in the bucket for backups, which others may use too
_SAYING = ("HIVE_METASTORE_URI", "BACKUP_BUCKET", "WAREHOUSE_BUCKET")  # S3_* alone may be anybody's
_DEFAULTS = {
    "S3_ENDPOINT": "http://localhost:9000",
    "S3_ACCESS_KEY": "admin",
    "S3_SECRET_KEY": "password",
    "HIVE_METASTORE_URI": "thrift://localhost:9083",
    "BACKUP_BUCKET": "iceberg",
    "WAREHOUSE_BUCKET": "warehouse",
}


def add_variables(sections: Sections, environ: Mapping[str, str], cwd: Path) -> None:
    """Add both, if one of the variables that say so is set; those that are there stay."""
    saying = next((name for name in _SAYING if environ.get(name)), None)
    if saying is None:
        return
    values = {name: environ.get(name) or default for name, default in _DEFAULTS.items()}
    store = {
        "s3.endpoint": (values["S3_ENDPOINT"], "S3_ENDPOINT"),
        "s3.access-key-id": (values["S3_ACCESS_KEY"], "S3_ACCESS_KEY"),
        "s3.secret-access-key": (values["S3_SECRET_KEY"], "S3_SECRET_KEY"),
        "s3.path-style-access": ("true", "S3_ENDPOINT"),
        "s3.region": (environ.get("AWS_REGION") or "us-east-1", "AWS_REGION"),
    }
    catalog = {
        "type": ("hive", "HIVE_METASTORE_URI"),
        "uri": (values["HIVE_METASTORE_URI"], "HIVE_METASTORE_URI"),
        "warehouse": (f"s3://{values['WAREHOUSE_BUCKET']}", "WAREHOUSE_BUCKET"),
    }
    location = f"s3://{values['BACKUP_BUCKET']}/{_FOLDER}"
    for kind, name, content in (
        ("catalogs", CATALOG, {**catalog, **store}),
        ("repositories", REPOSITORY, {"location": (location, "BACKUP_BUCKET"), **store}),
    ):
        entries = {
            key: Entry(value, variable, str(cwd.absolute()), _told(variable, environ))
            for key, (value, variable) in content.items()
        }
        section = Section(kind, name, saying, entries, is_borrowed=True)
        sections.setdefault((kind, name), section)


def _told(variable: str, environ: Mapping[str, str]) -> str:
    return variable if environ.get(variable) else f"default of {variable}"
