"""What a stack for trying things out consists of: names, ports, keys, and the files that tell them.

The names and numbers are those of a common Hive and MinIO set-up, so that its variables fit.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

HOST = "127.0.0.1"
ACCESS_KEY, SECRET_KEY, REGION = "admin", "password", "us-east-1"
S3_PORT = 9000
WAREHOUSE_BUCKET, BACKUP_BUCKET, SECOND_BUCKET = "warehouse", "iceberg", "restored"
BUCKETS = (WAREHOUSE_BUCKET, BACKUP_BUCKET, SECOND_BUCKET)
SECOND_CATALOG, REPOSITORY = "dr", "backup"
CONFIG_FILE, VARIABLES_FILE = "bcn.toml", "env.sh"
SECOND_FOLDER, SECOND_DATABASE = "dr", "catalog.db"


class StackKind(Enum):
    """Which catalog stands beside the object store."""

    HIVE = "hive"
    REST = "rest"

    @property
    def port(self) -> int:
        """The catalog's usual one."""
        return {StackKind.HIVE: 9083, StackKind.REST: 8181}[self]

    @property
    def catalog(self) -> str:
        """Its name in the settings."""
        return f"{self.value}_catalog"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the two servers listen."""

    s3: int
    catalog: int

    @property
    def endpoint(self) -> str:
        """The address of the object store."""
        return f"http://{HOST}:{self.s3}"


def catalog_uri(kind: StackKind, port: int) -> str:
    """The address of the catalog."""
    return f"{'thrift' if kind is StackKind.HIVE else 'http'}://{HOST}:{port}"


def s3_properties(ports: Ports) -> dict[str, str]:
    """By which all sections, and the catalog's server, reach the object store."""
    return {
        "s3.endpoint": ports.endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": REGION,
        "s3.path-style-access": "true",
    }


def render_config(kind: StackKind, ports: Ports, folder: str) -> str:
    """`bcn.toml`: the catalog, a second one to restore to, the repository."""
    store = s3_properties(ports)
    catalog = {
        "type": kind.value,
        "uri": catalog_uri(kind, ports.catalog),
        "warehouse": f"s3://{WAREHOUSE_BUCKET}",
        **store,
    }
    second = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/{SECOND_FOLDER}/{SECOND_DATABASE}",
        "warehouse": f"s3://{SECOND_BUCKET}",
        **store,
    }
    repository = {"location": f"s3://{BACKUP_BUCKET}/bcn", **store}
    return "\n".join(
        (
            "# Written by 'bcn up'. The keys open this stack only, and nothing of value.",
            "",
            *_section(f"catalogs.{kind.catalog}", catalog),
            "# Another catalog, in another bucket, to restore to.",
            *_section(f"catalogs.{SECOND_CATALOG}", second),
            *_section(f"repositories.{REPOSITORY}", repository),
        )
    )


def _section(title: str, values: Mapping[str, str]) -> list[str]:
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return [f"[{title}]", *lines, ""]


def render_variables(kind: StackKind, ports: Ports) -> str:
    """`env.sh`: for programs that know the stack by variables, and for tools that speak S3."""
    variables = {
        "S3_ENDPOINT": ports.endpoint,
        "S3_ACCESS_KEY": ACCESS_KEY,
        "S3_SECRET_KEY": SECRET_KEY,
    }
    if kind is StackKind.HIVE:  # each of these tells bcn that there is a metastore
        variables |= {
            "HIVE_METASTORE_URI": catalog_uri(kind, ports.catalog),
            "WAREHOUSE_BUCKET": WAREHOUSE_BUCKET,
            "BACKUP_BUCKET": BACKUP_BUCKET,
        }
    tools = {
        "S3_ENDPOINT_URL": ports.endpoint,
        "AWS_ENDPOINT_URL_S3": ports.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
    }
    return "\n".join(
        (
            "# Written by 'bcn up'. With these alone, bcn needs no settings file.",
            *_exports(variables),
            "# The same for s5cmd, the AWS command line, and others.",
            *_exports(tools),
            "",
        )
    )


def _exports(variables: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
