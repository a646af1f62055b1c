"""A bench to try wrong settings on: real servers, and bcn as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import pytest

from bcn.repository.repository import Scope
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec
from tests.support.s3 import CloudProduct, add_twins, mirrored, sql_catalog
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.small import InProcess
from tests.support.toml import write_settings

SECRET = "S3cret-That-Nobody-May-See"
LIMIT_SECONDS = 15
Sections = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Said:
    """What a command said."""

    code: int
    stdout: str
    stderr: str
    seconds: float


@dataclass
class Bench:
    """Tables in a bucket, their repository in another one, and servers to be set up wrongly."""

    folder: Path
    minio: S3Server
    request: pytest.FixtureRequest
    sections: Sections
    repository: str
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def properties(self) -> dict[str, str]:
        return self.minio.properties

    def address(self, fixture: str) -> str:
        """Host and port of a server, started when it is first needed."""
        return str(self.request.getfixturevalue(fixture).server.address)

    def keys(self, *actions: str) -> dict[str, str]:
        """Keys of MinIO's own that may do so much and no more."""
        allowed = {"Effect": "Allow", "Action": list(actions), "Resource": ["arn:aws:s3:::*"]}
        found = boto3.client(
            "sts",
            endpoint_url=self.minio.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        ).assume_role(
            RoleArn="arn:aws:iam::123456789012:role/any",
            RoleSessionName="tests",
            Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}),
        )["Credentials"]
        return {
            "s3.access-key-id": found["AccessKeyId"],
            "s3.secret-access-key": found["SecretAccessKey"],
            "s3.session-token": found["SessionToken"],
        }

    def run(self, line: str, sections: Mapping[str, Mapping[str, str]]) -> Said:
        """bcn with these sections in place of the good ones; no secret in all that it leaves."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        write_settings(folder / "bcn.toml", {**self.sections, **sections})
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BCN_", "AWS_"))}
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "bcn", *line.split()],
            cwd=folder,
            env=clean,
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_SECONDS,
            check=False,
        )
        seconds = time.monotonic() - began
        left = [p for p in folder.rglob("*") if p.is_file() and p.name != "bcn.toml"]
        told = done.stdout + done.stderr + "".join(p.read_bytes().decode("latin-1") for p in left)
        assert not [secret for secret in self.secrets(sections) if secret in told]
        return Said(done.returncode, done.stdout, done.stderr, seconds)

    def run_all(self, lines: Mapping[str, tuple[str, Sections]]) -> dict[str, Said]:
        """Several at once: most of the time they wait. One that was slow may have waited for us."""
        with ThreadPoolExecutor(len(lines)) as threads:
            said = list(threads.map(lambda pair: self.run(*pair), lines.values()))
        found = dict(zip(lines, said, strict=True))
        slow = [name for name, answer in found.items() if answer.seconds >= LIMIT_SECONDS]
        return found | {name: self.run(*lines[name]) for name in slow}

    def secrets(self, sections: Mapping[str, Mapping[str, str]]) -> set[str]:
        """All that nobody may see."""
        words = ("secret", "session-token", "token", "credential")
        found = {SECRET, SECRET_KEY}
        for values in sections.values():
            found |= {v for k, v in values.items() if any(word in k for word in words)}
        return found


@contextmanager
def open_bench(minio: S3Server, folder: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """One in a folder. Fails in the end if a secret was stored, or a table restored."""
    with mirrored(minio, folder / "mirror") as lake, ExitStack() as stack:
        place, repository = f"{lake.location}/warehouse", f"s3://{minio.make_bucket()}/repository"
        catalogs = {
            "source": sql_catalog("source", folder / "source.db", place, minio.properties),
            "target": sql_catalog(
                "target", folder / "target.db", f"{lake.location}/restored", minio.properties
            ),
        }
        spec = StorageSpec(repository, minio.properties)
        product = CloudProduct(Path(), catalogs, InProcess(), spec)
        add_twins(product, "source", place)
        lake.upload()
        product.backup(Scope("source"))
        sections = {
            f"catalogs.{name}": {"type": "sql", **settings.properties}
            for name, settings in catalogs.items()
        }
        sections["repositories.nightly"] = {"location": repository, **minio.properties}
        yield Bench(folder, minio, request, sections, repository, stack)
        storage = open_storage(spec)
        stored = b"".join(storage.read(key) for key in storage.iter_keys(""))
        assert SECRET.encode() not in stored
        assert SECRET_KEY.encode() not in stored
        left = lake.keys()
        assert not [key for key in left if key.startswith("restored/")]


def check_said(said: Said, code: int) -> str:
    """One line and a hint, in time; what they say."""
    assert said.code == code, said
    assert said.seconds < LIMIT_SECONDS, said
    lines = said.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines[-2:]] == ["error", "hint"], said.stderr
    assert sum(line.startswith(("error:", "hint:")) for line in lines) == 2
    assert "Traceback" not in said.stdout + said.stderr
    if said.stdout.startswith("{"):
        error = json.loads(said.stdout)["error"]
        assert (error["exit_code"], bool(error["hint"])) == (code, True)
    return " ".join(lines[-2:])
