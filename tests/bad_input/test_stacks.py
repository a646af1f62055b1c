"""Settings of real stacks that are wrong, through the command: one line, a hint, in time.

Each store is set up wrongly in its three roles, as the place of the repository, of the source's
tables and of restored ones; each catalog as the source and as the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from bcn.stack.process import free_port
from tests.support.aws_front import open_front as open_aws_front
from tests.support.bench import SECRET, Bench, Sections, check_said, open_bench
from tests.support.front import Front, make_certificate
from tests.support.front import open_front as open_rest_front
from tests.support.proxy import Request, open_proxy, write_certificates
from tests.support.servers import S3Server


@pytest.fixture(scope="module")
def bench(
    minio: S3Server, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    with open_bench(minio, tmp_path_factory.mktemp("bench"), request) as opened:
        yield opened


# stores


@dataclass(frozen=True)
class Wrong:
    """How a store is set up wrongly, what must be said of it, and in which roles that matters."""

    change: Callable[[Bench], dict[str, str]]
    words: tuple[str, ...]
    roles: tuple[str, ...] = ("list", "source", "target")


def _old_clock(request: Request) -> None:
    for name in request.headers:
        if name.lower() == "x-amz-date":
            request.headers[name] = "20200101T000000Z"


def _late(bench: Bench) -> dict[str, str]:
    proxy = bench.stack.enter_context(open_proxy(bench.minio.server.address))
    proxy.rule = _old_clock
    return {"s3.endpoint": proxy.endpoint}


def _unknown_authority(bench: Bench) -> dict[str, str]:
    certificate, _ = write_certificates(bench.folder)
    proxy = bench.stack.enter_context(open_proxy(bench.minio.server.address, certificate))
    return {"s3.endpoint": proxy.endpoint}


STORES = {
    "nobody listens": Wrong(
        lambda _: {"s3.endpoint": f"http://127.0.0.1:{free_port()}"},
        ("connection refused", "s3.endpoint"),
    ),
    "no such host": Wrong(
        lambda _: {"s3.endpoint": "http://no-such-host.invalid:9000"},
        ("no such host", "s3.endpoint"),
    ),
    "a thrift port": Wrong(
        lambda bench: {"s3.endpoint": f"http://{bench.address('hive_server')}"}, ("s3.endpoint",)
    ),
    "https to an http port": Wrong(
        lambda bench: {"s3.endpoint": f"https://{bench.minio.server.address}"},
        ("http or https", "s3.endpoint"),
    ),
    "wrong secret": Wrong(
        lambda _: {"s3.secret-access-key": SECRET},
        ("credentials are not accepted", "s3.secret-access-key"),
        ("list", "source", "target", "check"),
    ),
    "unknown key": Wrong(
        lambda _: {"s3.access-key-id": "nobody", "s3.secret-access-key": SECRET},
        ("credentials are not accepted", "s3.access-key-id"),
    ),
    "no bucket": Wrong(
        lambda _: {"bucket": "no-such-bucket"},
        ("no such bucket", "no-such-bucket"),
        ("list", "backup", "target"),
    ),
    "only to read": Wrong(
        lambda bench: bench.keys("s3:GetObject", "s3:ListBucket"),
        ("access is denied", "write"),
        ("backup", "target"),
    ),
    "not to list": Wrong(
        lambda bench: bench.keys("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
        ("access is denied", "list"),
        ("list", "backup", "target"),
    ),
    "clock": Wrong(_late, ("clock", "NTP")),
    "unknown authority": Wrong(_unknown_authority, ("certificate", "AWS_CA_BUNDLE")),
}
LINES = {
    "list": "list",
    "check": "config check nightly",
    "backup": "backup --catalog source",
    "source": "backup --catalog source --repo local --json",
    "target": "restore --target-catalog target",
}


def in_role(bench: Bench, role: str, change: Mapping[str, str]) -> Sections:
    """The section that a role is about, changed."""
    names = {"source": "catalogs.source", "target": "catalogs.target"}
    name = names.get(role, "repositories.nightly")
    values, place = dict(bench.sections[name]), dict(change)
    bucket = place.pop("bucket", None)
    key = "location" if "location" in values else "warehouse"
    if bucket is not None:
        values[key] = f"s3://{bucket}/place"
    return {name: {**values, **place}}


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_is_set_up_wrongly_is_told(bench: Bench, name: str) -> None:
    wrong = STORES[name]
    change = wrong.change(bench)
    said = bench.run_all({r: (LINES[r], in_role(bench, r, change)) for r in wrong.roles})
    for role, answer in said.items():
        text = check_said(answer, 15)
        assert not [word for word in wrong.words if word not in text], (role, text)


# catalogs


@dataclass(frozen=True)
class WrongCatalog:
    """A catalog's section that is wrong, and what must be said of it."""

    section: Callable[[Bench], dict[str, str]]
    words: tuple[str, ...]
    code: int = 14


def _rest(bench: Bench, uri: str = "", **more: str) -> dict[str, str]:
    return {"type": "rest", "uri": uri or f"http://{bench.address('rest_server')}", **more}


def _guarded_rest(bench: Bench) -> dict[str, str]:
    guard = Front(bench.address("rest_server"), tokens={"another"})
    front = bench.stack.enter_context(open_rest_front(guard))
    return _rest(bench, front.uri, token=SECRET)


def _rest_of_unknown_authority(bench: Bench) -> dict[str, str]:
    guard, certificate = Front(bench.address("rest_server")), make_certificate(bench.folder)
    front = bench.stack.enter_context(open_rest_front(guard, certificate))
    return _rest(bench, front.uri, token=SECRET)


def _hive(uri: str) -> dict[str, str]:
    return {"type": "hive", "uri": uri}


def _glue(endpoint: str) -> dict[str, str]:
    return {
        "type": "glue",
        "glue.endpoint": endpoint,
        "glue.region": "us-east-1",
        "glue.access-key-id": "AKIAX",
        "glue.secret-access-key": SECRET,
    }


def _refusing_glue(bench: Bench, status: int, code: str, message: str) -> dict[str, str]:
    front = open_aws_front(bench.address("glue_server"), always=(status, code, message))
    return _glue(bench.stack.enter_context(front).endpoint)


def _glue_of_unknown_authority(bench: Bench) -> dict[str, str]:
    certificate, _ = write_certificates(bench.folder)
    address = bench.address("glue_server")
    return _glue(bench.stack.enter_context(open_proxy(address, certificate)).endpoint)


def _postgres(bench: Bench, **changes: object) -> dict[str, str]:
    server = bench.request.getfixturevalue("postgres")
    return {"type": "sql", "uri": server.uri(server.make_database(), **changes)}


_EXPIRED = "Signature expired: 20200101T000000Z is now earlier than 20261116T000000Z"
CATALOGS = {
    "rest, nobody listens": WrongCatalog(
        lambda bench: _rest(bench, f"http://127.0.0.1:{free_port()}", token=SECRET),
        ("connection refused", "uri"),
    ),
    "rest, wrong token": WrongCatalog(_guarded_rest, ("401", "token")),
    "rest, unknown authority": WrongCatalog(
        _rest_of_unknown_authority, ("certificate", "ssl.cabundle")
    ),
    "rest, a thrift port": WrongCatalog(
        lambda bench: _rest(bench, f"http://{bench.address('hive_server')}", token=SECRET),
        ("uri", "thrift"),
    ),
    "hive, nobody listens": WrongCatalog(
        lambda _: _hive(f"thrift://127.0.0.1:{free_port()}"), ("connection refused", "uri")
    ),
    "hive, the port of S3": WrongCatalog(
        lambda bench: _hive(f"thrift://{bench.minio.server.address}"), ("HTTP server", "9083")
    ),
    "hive, the port of a REST catalog": WrongCatalog(
        lambda bench: _hive(f"thrift://{bench.address('rest_server')}"), ("HTTP server", "rest")
    ),
    "hive, Kerberos without its package": WrongCatalog(
        lambda bench: {
            **_hive(f"thrift://{bench.address('hive_server')}"),
            "hive.kerberos-authentication": "true",
        },
        ("pure-sasl", "pip install"),
        2,
    ),
    "glue, nobody listens": WrongCatalog(
        lambda _: _glue(f"http://127.0.0.1:{free_port()}"), ("glue.endpoint",)
    ),
    "glue, wrong key": WrongCatalog(
        lambda bench: _refusing_glue(
            bench, 400, "UnrecognizedClientException", "The security token is invalid."
        ),
        ("glue.access-key-id", "glue.secret-access-key"),
    ),
    "glue, may not": WrongCatalog(
        lambda bench: _refusing_glue(
            bench, 400, "AccessDeniedException", "user is not authorized: glue:GetDatabases"
        ),
        ("glue:GetDatabases",),
    ),
    "glue, clock": WrongCatalog(
        lambda bench: _refusing_glue(bench, 400, "InvalidSignatureException", _EXPIRED),
        ("clock",),
    ),
    "glue, unknown authority": WrongCatalog(
        _glue_of_unknown_authority, ("certificate", "AWS_CA_BUNDLE")
    ),
    "sql, wrong password": WrongCatalog(
        lambda bench: _postgres(bench, password=SECRET), ("password", "uri")
    ),
    "sql, nobody listens": WrongCatalog(
        lambda bench: _postgres(bench, port=free_port(), password=SECRET), ("refused", "uri")
    ),
    "misspelt": WrongCatalog(
        lambda _: {"type": "hvie", "uri": "thrift://127.0.0.1:9083"}, ("did you mean 'hive'",), 2
    ),
}


@pytest.mark.parametrize("name", CATALOGS)
def test_a_catalog_that_is_set_up_wrongly_is_told(bench: Bench, name: str) -> None:
    wrong = CATALOGS[name]
    sections = {"catalogs.bad": wrong.section(bench)}
    lines = {
        "backup": "backup --catalog bad --repo local",
        "restore": "restore --table two --target-catalog bad --target-location LOCAL --json",
    }
    lines["restore"] = lines["restore"].replace("LOCAL", str(bench.folder / "never"))
    said = bench.run_all({role: (line, sections) for role, line in lines.items()})
    for role, answer in said.items():
        text = check_said(answer, wrong.code)
        assert not [word for word in wrong.words if word not in text], (role, text)
    assert not (bench.folder / "never").exists()
