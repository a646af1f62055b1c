"""Azure Blob Storage: what it is sent, what goes wrong, and tables there and back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from bcn.errors import KeyExistsError, StorageError
from bcn.stack.process import free_port
from bcn.storage.azure_settings import AzureSettings
from bcn.storage.cloud_stream import PART_BYTES
from bcn.storage.open import Stores, canonical_location, open_storage, overlaps
from bcn.storage.protocol import Access, Storage, StorageSpec
from tests.support.azurite import ACCOUNT, KEY, AzureServer, make_sas
from tests.support.clouds import (
    LARGE,
    OPERATIONS,
    CloudMirror,
    check_command,
    check_example,
    check_round_trip,
    fails,
    mirrored_cloud,
    write_large,
)
from tests.support.proxy import Lose, Proxy, Refuse, Request, open_proxy
from tests.support.silent import silent_port

SECRET = "not-to-be-shown"
WRONG_KEY = "d3Jvbmcga2V5"


@pytest.fixture(scope="module")
def bucket(azurite: AzureServer) -> str:
    return azurite.make_bucket()


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTION_STRING", "ACCOUNT_NAME", "ACCOUNT", "ACCOUNT_KEY", "KEY", "SAS_TOKEN"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET", "FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(f"AZURE_{name}", raising=False)
    monkeypatch.setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:9/")  # never the machine's own
    monkeypatch.setenv("IDENTITY_HEADER", SECRET)


def _open(azurite: AzureServer, bucket: str, root: str, address: str = "") -> Storage:
    properties = azurite.properties_at(address or azurite.server.address)
    return open_storage(StorageSpec(f"az://{bucket}/{root}", properties))


def _with(azurite: AzureServer, **values: str) -> dict[str, str]:
    """Properties without the key, and with others."""
    more = {f"adls.{name.replace('_', '-')}": value for name, value in values.items()}
    kept = {k: v for k, v in azurite.properties.items() if k != "adls.account-key"}
    return {**kept, **more}


def _fails(operation: Callable[[], object]) -> StorageError:
    return fails(operation, [KEY, WRONG_KEY, SECRET])


def _address(proxy: Proxy) -> str:
    return f"127.0.0.1:{proxy.port}"


# large objects


def test_a_large_object_appears_whole_and_its_blocks_before_are_no_key(
    azurite: AzureServer, bucket: str
) -> None:
    storage = _open(azurite, bucket, "large")
    with storage.open_writer("large") as writer:
        writer.write(LARGE)
        assert storage.find_stat("large") is None
        assert list(storage.iter_keys("")) == list(storage.iter_leftovers("")) == []
        writer.commit()
    assert azurite.read(bucket, "large/large") == LARGE
    with storage.open_reader("large") as reader:
        buffer = memoryview(bytearray(len(LARGE) + 1))
        assert reader.readinto(buffer) == len(LARGE)
        assert reader.stat == storage.find_stat("large")
    assert bytes(buffer[:-1]) == LARGE


def test_a_large_object_that_must_be_new_never_replaces_one(
    azurite: AzureServer, bucket: str
) -> None:
    storage = _open(azurite, bucket, "taken")
    with storage.open_writer("large") as writer:
        storage.write_once("large", b"early")  # before a block is there: Azurite counts those
        writer.write(LARGE)
        with pytest.raises(KeyExistsError):
            writer.commit()
    assert azurite.read(bucket, "taken/large") == b"early"


def test_of_two_large_objects_of_one_name_one_wins_whole(azurite: AzureServer, bucket: str) -> None:
    storage = _open(azurite, bucket, "two")
    with storage.open_writer("large") as one, storage.open_writer("large") as two:
        one.write(b"1" * len(LARGE))
        two.write(b"2" * len(LARGE))
        one.commit()
        with pytest.raises(KeyExistsError):
            two.commit()
    assert azurite.read(bucket, "two/large") == b"1" * len(LARGE)


def test_every_create_carries_the_condition_and_no_replacement_does(
    azurite: AzureServer, bucket: str
) -> None:
    with open_proxy(azurite.server.address) as proxy:
        storage = _open(azurite, bucket, "conditions", _address(proxy))
        storage.write_once("key", b"x")
        storage.write_once("a//b", b"x")
        write_large(storage)
        created = len(proxy.seen)
        storage.replace("key", b"y")
        storage.replace("a//b", b"y")
        seen = [
            (item.path, {k.lower(): v for k, v in item.headers.items()}, item.method)
            for item in proxy.seen
        ]
    puts = [
        (number < created, headers.get("if-none-match"))
        for number, (path, headers, method) in enumerate(seen)
        if method == "PUT" and "comp=block&" not in path
    ]
    assert puts == [(True, "*")] * 3 + [(False, None)] * 2


@pytest.mark.parametrize("what", ["comp=block&", "comp=blocklist", "lost/key"])
def test_a_lost_answer_to_a_create_is_found_again_by_its_mark(
    azurite: AzureServer, bucket: str, what: str
) -> None:
    lost: list[str] = []

    def rule(request: Request) -> None:
        if what in request.path and request.method == "PUT" and not lost:
            lost.append(request.path)
            raise Lose

    with open_proxy(azurite.server.address) as proxy:
        proxy.rule = rule
        storage = _open(azurite, bucket, f"{quote(what, safe='')}/lost", _address(proxy))
        storage.write_once("key", b"x")
        write_large(storage)
        for write in (lambda: storage.write_once("key", b"x"), lambda: write_large(storage)):
            with pytest.raises(KeyExistsError):
                write()
    assert lost
    assert storage.read("key") == b"x"


# names


@pytest.mark.parametrize("key", ["a//b", "/a", "a/", "..x", "a /b", "a%2Fb", "ümlaut//+"])
def test_odd_names_are_kept_as_they_are(azurite: AzureServer, bucket: str, key: str) -> None:
    root = f"odd-{quote(key, safe='').replace('%', '_')}"
    storage = _open(azurite, bucket, root)
    storage.write_once(key, LARGE[: PART_BYTES + 1000])
    name = f"{root}/{key}"
    assert name in azurite.keys(bucket)
    assert storage.read(key) == azurite.read(bucket, name) == LARGE[: PART_BYTES + 1000]
    stat = storage.find_stat(key)
    with storage.open_reader(key) as reader:
        buffer = memoryview(bytearray(PART_BYTES + 2000))
        assert reader.readinto(buffer) == PART_BYTES + 1000
        assert reader.stat == stat
    storage.delete(key)
    assert name not in azurite.keys(bucket)


@pytest.mark.parametrize(
    "key", ["a/../b", "a/./b", "..", "back\\slash", "dot./b", "dot.", "line\nend", "x" * 1025]
)
def test_names_that_azure_would_change_are_refused(
    azurite: AzureServer, bucket: str, key: str
) -> None:
    storage = _open(azurite, bucket, "refused")
    for write in (
        lambda: storage.write_once(key, b"x"),
        lambda: storage.replace(key, b"x"),
        lambda: storage.open_writer(key).write(LARGE),
    ):
        with pytest.raises(StorageError, match="does not take this key") as caught:
            write()
        assert "\n" not in str(caught.value)
    assert not [name for name in azurite.keys(bucket) if name.startswith(("refused", "b"))]


@pytest.mark.parametrize("key", ["a/../b", "back\\slash", "."])
def test_no_other_object_is_read_in_place_of_one(
    azurite: AzureServer, bucket: str, key: str
) -> None:
    storage = _open(azurite, bucket, "other")
    for name in ("b", "back/slash"):
        azurite.write(bucket, f"other/{name}", b"another")
    for read in (storage.read, storage.open_reader, storage.find_stat, storage.delete):
        with pytest.raises(StorageError, match="does not take this key"):
            read(key)
    assert storage.read("b") == b"another"


def test_folders_that_hadoop_marks_are_no_keys(azurite: AzureServer, bucket: str) -> None:
    storage = _open(azurite, bucket, "hadoop")
    azurite.write(bucket, "hadoop/folder", b"", meta_hdi_isfolder="true")
    azurite.write(bucket, "hadoop/folder/key", b"x")
    assert list(storage.iter_keys("")) == ["folder/key"]
    assert storage.find_stat("folder") is None
    assert list(storage.iter_children("")) == ["folder/"]
    assert storage.has_folder("folder/")


def test_a_listing_goes_on_where_a_page_ends(
    azurite: AzureServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = _open(azurite, bucket, "pages")
    names = [f"{number:02d}" for number in range(50)]
    for name in names:
        azurite.write(bucket, f"pages/{name}", b"")
    with open_proxy(azurite.server.address) as proxy:
        storage = _open(azurite, bucket, "pages", _address(proxy))
        pages = storage.bucket._pages  # type: ignore[attr-defined]
        monkeypatch.setattr(
            storage.bucket,  # type: ignore[attr-defined]
            "_pages",
            lambda params: pages({**params, "maxresults": "7"}),
        )
        assert list(storage.iter_keys("")) == names
        assert len(proxy.seen) == 8


def test_an_object_that_is_replaced_while_it_is_read_is_never_mixed(
    azurite: AzureServer, bucket: str
) -> None:
    storage = _open(azurite, bucket, "changed")
    write_large(storage, b"1" * (3 * PART_BYTES))
    with storage.open_reader("large") as reader:
        buffer = memoryview(bytearray(3 * PART_BYTES))
        reader.readinto(buffer[:1000])
        azurite.write(bucket, "changed/large", b"2" * (3 * PART_BYTES))
        with pytest.raises(StorageError, match="it changed while it was read"):
            reader.readinto(buffer[1000:])


# places


def test_all_spellings_reach_the_same_container(azurite: AzureServer, bucket: str) -> None:
    azurite.write(bucket, "place/key", b"x")
    stores = Stores(Access(azurite.properties))
    hosts = {"abfs": "dfs", "abfss": "dfs", "wasb": "blob", "wasbs": "blob"}
    places = [f"{k}://{bucket}@{ACCOUNT}.{v}.core.windows.net" for k, v in hosts.items()]
    for place in (*places, f"az://{bucket}"):
        storage, key = stores.resolve(f"{place}/place/key")
        assert storage.read(key) == b"x"
        assert overlaps(f"{place}/place", f"az://{bucket}/place/key")
        assert canonical_location(f"{place}/a//b/") == f"az://{bucket}/a/b"
    assert not overlaps("az://one/x", "az://two/x")


ENDPOINTS: list[tuple[str, dict[str, str], str]] = [
    ("files@shop.dfs.core.windows.net", {}, "https://shop.blob.core.windows.net"),
    ("files@shop.dfs.core.chinacloudapi.cn", {}, "https://shop.blob.core.chinacloudapi.cn"),
    ("files", {"account-name": "shop"}, "https://shop.blob.core.windows.net"),
    ("files", {"account-host": "shop.blob.local.test"}, "https://shop.blob.local.test"),
    (
        "files",
        {"account-name": "shop", "blob-storage-authority": ".blob.local.test"},
        "https://shop.blob.local.test",
    ),
    (
        "files",
        {
            "account-name": "shop",
            "blob-storage-authority": "127.0.0.1:10000",
            "blob-storage-scheme": "http",
        },
        "http://127.0.0.1:10000/shop",
    ),
    (
        "files",
        {"connection-string": "AccountName=shop;AccountKey=aw==;EndpointSuffix=core.test"},
        "https://shop.blob.core.test",
    ),
    (
        "files",
        {"connection-string": "AccountName=shop;BlobEndpoint=http://127.0.0.1:1/shop/;"},
        "http://127.0.0.1:1/shop",
    ),
    ("files", {"sas-token.shop": "sig=x"}, "https://shop.blob.core.windows.net"),
]


@pytest.mark.parametrize(("place", "properties", "endpoint"), ENDPOINTS)
def test_where_an_account_is(place: str, properties: dict[str, str], endpoint: str) -> None:
    settings = AzureSettings(place, {f"adls.{k}": v for k, v in properties.items()})
    assert settings.account == "shop"
    assert settings.endpoint == endpoint


# who we are


def _works(azurite: AzureServer, bucket: str, properties: dict[str, str], root: str) -> None:
    storage = open_storage(StorageSpec(f"{azurite.location(bucket)}/{root}", properties))
    storage.write_once("a//odd key+", b"x")
    storage.write_once("key", b"x")
    write_large(storage)
    assert storage.read("large") == LARGE
    assert list(storage.iter_keys("")) == ["a//odd key+", "key", "large"]
    storage.delete_all("")
    assert list(storage.iter_keys("")) == []


def test_a_connection_string_says_all(azurite: AzureServer, bucket: str) -> None:
    endpoint = f"{azurite.endpoint}/{ACCOUNT}"
    text = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
    _works(azurite, bucket, {"adls.connection-string": text}, "connection")


@pytest.mark.parametrize("name", ["sas_token", f"sas_token.{ACCOUNT}"])
def test_a_signature_is_enough(azurite: AzureServer, bucket: str, name: str) -> None:
    properties = _with(azurite, **{name: f"?{make_sas()}"})
    _works(azurite, bucket, properties, name)


def test_a_signature_of_another_account_is_not_used(azurite: AzureServer, bucket: str) -> None:
    more = {f"sas_token.{ACCOUNT}2": make_sas(key=WRONG_KEY), "account_key": KEY}
    _works(azurite, bucket, _with(azurite, **more), "other-account")


@pytest.mark.parametrize(
    "properties",
    [
        {"sas_token": make_sas(key=WRONG_KEY)},
        {"sas_token": make_sas(ends_in=timedelta(hours=-1))},
        {"account_key": WRONG_KEY},
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_credentials_that_are_refused_are_said(
    azurite: AzureServer, bucket: str, operation: str, properties: dict[str, str]
) -> None:
    spec = StorageSpec(f"az://{bucket}/root", _with(azurite, **properties))
    error = fails(
        lambda: OPERATIONS[operation](open_storage(spec)),
        [WRONG_KEY, parse_qs(properties.get("sas_token", "sig=none"))["sig"][0], "sig="],
    )
    assert f"az://{bucket}/root" in str(error)
    if operation == "look":  # the emulator's own code for both, and HEAD has no words
        assert "access is denied (AuthorizationFailure)" in str(error)
        return
    assert "credentials are not accepted" in str(error)
    assert "adls.account-key" in error.hint


def test_a_signature_that_may_only_read(azurite: AzureServer, bucket: str) -> None:
    azurite.write(bucket, "read-only/key", b"x")
    properties = _with(azurite, sas_token=make_sas("rl"))
    storage = open_storage(StorageSpec(f"az://{bucket}/read-only", properties))
    assert storage.read("key") == b"x"
    for operation in ("write", "write large", "delete"):
        error = _fails(lambda: OPERATIONS[operation](storage))  # noqa: B023  called at once
        assert "access is denied" in str(error)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"account_key": f"{SECRET}!"}, "it is not Base64"),
        ({"sas_token": SECRET}, "no shared access signature"),
        ({"client_secret": SECRET}, "needs adls.tenant-id"),
        ({"blob_storage_authority": f"user:{SECRET}@host"}, "no address of a service"),
        ({"account_name": "other", "account_key": KEY}, "is of account 'other'"),
    ],
)
def test_properties_that_make_no_sense_are_said(
    azurite: AzureServer, bucket: str, properties: dict[str, str], words: str
) -> None:
    spec = StorageSpec(f"{azurite.location(bucket)}/x", _with(azurite, **properties))
    assert words in str(_fails(lambda: open_storage(spec).find_stat("key")))


@pytest.mark.parametrize(
    "location", [f"az://user:{SECRET}@host/x", "az://Upper/x", f"abfss://{SECRET}!@x.y/z"]
)
def test_what_is_no_container_is_not_shown(location: str) -> None:
    error = _fails(lambda: open_storage(StorageSpec(location, {"adls.account-name": "shop"})))
    assert "no container" in str(error)


def test_no_account_is_said() -> None:
    error = _fails(lambda: open_storage(StorageSpec("az://files/x")))
    assert "no storage account" in str(error)
    assert "adls.account-name" in error.hint


# tokens


@pytest.fixture
def token_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, list[str]]]]:
    """Gives tokens as Microsoft's does, but not for a wrong secret; each is another one."""
    asked: list[dict[str, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Quiet."""

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            form = parse_qs(body or urlsplit(self.path).query)
            asked.append({"path": [urlsplit(self.path).path], **form})
            is_wrong = form.get("client_secret") == [f"{SECRET}-wrong"]
            answer = {"access_token": f"token-{len(asked)}", "expires_in": 3600}
            if is_wrong:
                answer = {
                    "error": "invalid_client",
                    "error_description": f"AADSTS7000215: {SECRET}",
                }
            self.send_response(401 if is_wrong else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = _serve  # noqa: N815  names of the base

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", address)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{address}/machine")
    monkeypatch.setenv("IDENTITY_HEADER", SECRET)
    yield asked
    server.shutdown()
    server.server_close()
    thread.join()


def _tokens_sent(azurite: AzureServer, bucket: str, properties: dict[str, str]) -> set[str | None]:
    """Azurite takes tokens by TLS only: what it would be sent is looked at on the way."""

    def rule(_: Request) -> None:
        raise Refuse(403, b"<Error><Code>AuthorizationFailure</Code></Error>")

    with open_proxy(azurite.server.address) as proxy:
        proxy.rule = rule
        more = {"adls.blob-storage-authority": _address(proxy)}
        storage = open_storage(StorageSpec(f"az://{bucket}/tokens", {**properties, **more}))
        for operation in OPERATIONS.values():
            assert "access is denied" in str(_fails(lambda: operation(storage)))  # noqa: B023
        seen = [{k.lower(): v for k, v in item.headers.items()} for item in proxy.seen]
    assert len(seen) >= len(OPERATIONS)
    return {headers.get("authorization") for headers in seen}


def test_a_token_that_was_given_is_sent(azurite: AzureServer, bucket: str) -> None:
    sent = _tokens_sent(azurite, bucket, _with(azurite, token=SECRET))
    assert sent == {f"Bearer {SECRET}"}


def test_an_application_gets_its_token_once(
    azurite: AzureServer, bucket: str, token_server: list[dict[str, list[str]]]
) -> None:
    more = {"tenant_id": "tenant", "client_id": "client", "client_secret": SECRET}
    assert _tokens_sent(azurite, bucket, _with(azurite, **more)) == {"Bearer token-1"}
    (asked,) = token_server
    assert asked["path"] == ["/tenant/oauth2/v2.0/token"]
    assert asked["client_secret"] == [SECRET]
    assert asked["scope"] == ["https://storage.azure.com/.default"]


def test_a_workload_proves_itself_by_a_file(
    azurite: AzureServer,
    bucket: str,
    token_server: list[dict[str, list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "proof").write_text(f"{SECRET}\n")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "proof"))
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    assert _tokens_sent(azurite, bucket, _with(azurite)) == {"Bearer token-1"}
    assert token_server[0]["client_assertion"] == [SECRET]


def test_a_machine_has_an_identity(
    azurite: AzureServer, bucket: str, token_server: list[dict[str, list[str]]]
) -> None:
    assert _tokens_sent(azurite, bucket, _with(azurite)) == {"Bearer token-1"}
    assert token_server[0]["path"] == ["/machine"]
    assert token_server[0]["resource"] == ["https://storage.azure.com/"]


@pytest.mark.usefixtures("token_server")
def test_a_wrong_secret_of_an_application_is_said(azurite: AzureServer, bucket: str) -> None:
    more = {"tenant_id": "tenant", "client_id": "client", "client_secret": f"{SECRET}-wrong"}
    for operation in ("read", "list"):
        spec = StorageSpec(f"az://{bucket}/{operation}", _with(azurite, **more))
        error = _fails(lambda: OPERATIONS[operation](open_storage(spec)))  # noqa: B023  at once
        assert "invalid_client AADSTS7000215" in str(error)
        assert "adls.client-id" in error.hint


def test_nobody_gives_tokens(
    azurite: AzureServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{free_port()}/machine")
    monkeypatch.setenv("IDENTITY_HEADER", SECRET)
    spec = StorageSpec(f"az://{bucket}/nobody", _with(azurite))
    error = _fails(lambda: open_storage(spec).find_stat("key"))
    assert "no credentials for Azure" in str(error)
    assert "adls.account-key" in error.hint


# what does not answer


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "delete"])
def test_a_missing_container_is_no_missing_key(azurite: AzureServer, operation: str) -> None:
    storage = _open(azurite, f"no-such-{operation.replace(' ', '-')}", "root")
    error = _fails(lambda: OPERATIONS[operation](storage))
    assert "no such bucket" in str(error)
    assert "adls.account-name" in error.hint


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes is seen where the command is run."""
    monkeypatch.setattr("bcn.storage.requests._UNPROVEN_SECONDS", 1.0)
    monkeypatch.setattr("bcn.storage.http._FIRST_ANSWER_SECONDS", 2)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("operation", ["read", "list"])
def test_nobody_listens(azurite: AzureServer, bucket: str, operation: str) -> None:
    storage = _open(azurite, bucket, "root", f"127.0.0.1:{free_port()}")
    error = _fails(lambda: OPERATIONS[operation](storage))
    assert "connection refused" in str(error)
    assert "adls.blob-storage-authority" in error.hint


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize(
    ("operation", "answer", "words"),
    [
        ("read", b"", "no answer"),
        ("read", b"\x80\x01\x00\x03\x00\x00", "does not speak"),
        ("list", b"\x80\x01\x00\x03\x00\x00", "does not speak"),
    ],
)
def test_a_port_that_speaks_something_else(
    azurite: AzureServer, bucket: str, operation: str, answer: bytes, words: str
) -> None:
    with silent_port(answer) as port:
        storage = _open(azurite, bucket, "root", f"127.0.0.1:{port}")
        error = _fails(lambda: OPERATIONS[operation](storage))
    assert words in str(error)
    assert "adls.blob-storage-scheme" in error.hint


def test_https_to_a_port_without_it(azurite: AzureServer, bucket: str) -> None:
    properties = {**azurite.properties, "adls.blob-storage-scheme": "https"}
    for operation in ("read", "list"):
        storage = open_storage(StorageSpec(f"az://{bucket}/https", properties))
        error = _fails(lambda: OPERATIONS[operation](storage))  # noqa: B023  called at once
        assert "does not answer to https" in str(error)


# there and back


@pytest.fixture
def warehouse(azurite: AzureServer, tmp_path: Path) -> Iterator[CloudMirror]:
    with mirrored_cloud(azurite, tmp_path / "mirror") as place:
        yield place


def test_tables_come_back_from_another_container(warehouse: CloudMirror, tmp_path: Path) -> None:
    check_round_trip(warehouse, tmp_path, [KEY])


def test_the_example_of_the_docs_works(
    warehouse: CloudMirror, azurite: AzureServer, tmp_path: Path
) -> None:
    told = {
        "127.0.0.1:10000": azurite.server.address,
        "abfss://warehouse@shop.dfs.core.windows.net": warehouse.location,
        "az://backups": f"az://{azurite.make_bucket()}",
        "YWNjb3VudC1rZXk=": KEY,
        '"shop"': f'"{ACCOUNT}"',
        "AccountName=shop": f"AccountName={ACCOUNT}",
        "/shop;": f"/{ACCOUNT};",
    }
    check_example(warehouse, tmp_path, "Azure", told)


# as its users run it


def test_the_command_says_in_one_line_what_is_wrong(
    azurite: AzureServer, bucket: str, tmp_path: Path
) -> None:
    place, properties = f"{azurite.location(bucket)}/command", azurite.properties
    dead = azurite.properties_at(f"127.0.0.1:{free_port()}")
    places = {
        "good": (place, properties),
        "none": ("az://no-such-container/command", properties),
        "dead": (place, dead),
        "wrong": (place, {**properties, "adls.account-key": WRONG_KEY}),
        "signed": (place, _with(azurite, sas_token=make_sas(key=WRONG_KEY))),
    }
    check_command(tmp_path, places, [KEY, WRONG_KEY, "sig="])
