"""Google Cloud Storage: what it is sent, what goes wrong, and tables there and back."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bcn.errors import KeyExistsError, StorageError
from bcn.stack.process import free_port
from bcn.storage.cloud_stream import PART_BYTES
from bcn.storage.gcs import GcsBucket
from bcn.storage.open import Stores, canonical_location, open_storage, overlaps
from bcn.storage.protocol import Access, Storage, StorageSpec
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
from tests.support.gcs import TOKEN, GcsServer
from tests.support.proxy import Lose, Proxy, Refuse, Request, open_proxy
from tests.support.resumable import Resumable, open_resumable
from tests.support.silent import silent_port

EXPIRED = {"gcs.oauth2.token-expires-at": "1700000000000"}


@pytest.fixture(scope="module")
def bucket(gcs: GcsServer) -> str:
    return gcs.make_bucket()


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Never what the machine itself has."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def _open(bucket: str, endpoint: str, root: str, **changes: str) -> Storage:
    properties = {"gcs.service.host": endpoint, "gcs.oauth2.token": TOKEN}
    properties |= {f"gcs.{name.replace('__', '.')}": value for name, value in changes.items()}
    return open_storage(StorageSpec(f"gs://{bucket}/{root}", properties))


# large objects


@pytest.fixture
def google(gcs: GcsServer) -> Iterator[Resumable]:
    """The emulator, with uploads in parts by Google's rules."""
    with open_resumable(gcs.server.address) as front:
        yield front


def test_a_large_object_appears_whole_on_the_emulator(gcs: GcsServer, bucket: str) -> None:
    storage = _open(bucket, gcs.endpoint, "emulator")
    with storage.open_writer("large") as writer:
        writer.write(LARGE)
        assert storage.find_stat("large") is None
        assert list(storage.iter_keys("")) == list(storage.iter_leftovers("")) == []
        writer.commit()
    assert gcs.read(bucket, "emulator/large") == LARGE
    with storage.open_reader("large") as reader:
        buffer = memoryview(bytearray(len(LARGE) + 1))
        assert reader.readinto(buffer) == len(LARGE)
    assert bytes(buffer[:-1]) == LARGE


def test_parts_go_in_order_and_the_last_one_says_how_many_bytes_there_are(
    google: Resumable, gcs: GcsServer, bucket: str
) -> None:
    write_large(_open(bucket, google.endpoint, "order"))
    size, part = len(LARGE), PART_BYTES
    assert google.puts == [
        f"bytes 0-{part - 1}/*",
        f"bytes {part}-{2 * part - 1}/*",
        f"bytes {2 * part}-{size - 1}/{size}",
    ]
    (session,) = google.sessions.values()
    assert session.params["ifGenerationMatch"] == ["0"]
    assert google.tokens == [None] * 3  # a session's address is all that it needs
    assert gcs.read(bucket, "order/large") == LARGE


def test_a_large_object_that_must_be_new_never_replaces_one(
    google: Resumable, gcs: GcsServer, bucket: str
) -> None:
    storage = _open(bucket, google.endpoint, "taken")
    with storage.open_writer("large") as writer:
        writer.write(LARGE)
        storage.write_once("large", b"early")
        with pytest.raises(KeyExistsError):
            writer.commit()
    assert gcs.read(bucket, "taken/large") == b"early"


def test_the_emulator_itself_forgets_the_condition_of_a_session(
    gcs: GcsServer, bucket: str
) -> None:
    """Why the tests above have a server of their own: by plain HTTP, without a line of ours."""
    gcs.write(bucket, "forgetful", b"early")
    place = f"{gcs.endpoint}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=forgetful"
    begin = HttpRequest(f"{place}&ifGenerationMatch=0", b"{}", method="POST")
    with urlopen(begin, timeout=20) as answer:
        session = answer.headers["Location"]
    with urlopen(HttpRequest(session, b"late", method="PUT"), timeout=20) as answer:
        assert answer.status == 200
    assert gcs.read(bucket, "forgetful") == b"late"


@pytest.mark.parametrize("fate", ["refuse", "lose", "keep less"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_part_that_went_wrong_is_sent_from_where_the_server_is(
    google: Resumable, gcs: GcsServer, bucket: str, fate: str, number: int
) -> None:
    google.fate = lambda count: fate if count == number else "keep"
    root = f"fate-{fate.replace(' ', '-')}-{number}"
    write_large(_open(bucket, google.endpoint, root))
    assert len(google.puts) > 3
    assert gcs.read(bucket, f"{root}/large") == LARGE


def test_a_part_waits_for_those_before_it(google: Resumable, gcs: GcsServer, bucket: str) -> None:
    upload = GcsBucket(
        bucket, {"gcs.service.host": google.endpoint, "gcs.oauth2.token": TOKEN}
    ).begin_upload("turns", "mark")
    parts = {number: bytes([number]) * PART_BYTES for number in (1, 2, 3)}
    with ThreadPoolExecutor(3) as threads:
        sent = [threads.submit(upload.send, number, parts[number]) for number in (3, 2)]
        time.sleep(0.2)
        assert google.puts == []
        upload.send(1, parts[1])
        for future in sent:
            future.result(timeout=20)
    upload.finish(create_only=True)
    assert gcs.read(bucket, "turns") == b"".join(parts.values())


def test_an_upload_that_was_given_up_is_called_off(
    google: Resumable, gcs: GcsServer, bucket: str
) -> None:
    with _open(bucket, google.endpoint, "given-up").open_writer("large") as writer:
        writer.write(LARGE)
        assert len(google.sessions) == 1
    assert google.sessions == {}
    assert not [key for key in gcs.keys(bucket) if key.startswith("given-up")]


def test_parts_that_are_never_stored_are_an_error(
    google: Resumable, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.storage.gcs._WAIT_SECONDS", 0.01)
    google.fate = lambda _: "refuse"
    with pytest.raises(StorageError, match="stored 0 of"):
        write_large(_open(bucket, google.endpoint, "never"))


# small ones


def test_a_lost_answer_to_a_create_is_found_again_by_its_mark(gcs: GcsServer, bucket: str) -> None:
    lost: list[str] = []

    def rule(request: Request) -> None:
        if "uploadType=multipart" in request.path and not lost:
            lost.append(request.path)
            raise Lose

    with open_proxy(gcs.server.address) as proxy:
        proxy.rule = rule
        storage = _open(bucket, proxy.endpoint, "lost")
        storage.write_once("key", b"x")
        with pytest.raises(KeyExistsError):
            storage.write_once("key", b"x")
    assert lost
    assert set(gcs.describe(bucket, "lost/key")["metadata"]) == {"bcn-write"}


def test_every_create_carries_the_condition_and_no_replacement_does(
    gcs: GcsServer, bucket: str
) -> None:
    with open_proxy(gcs.server.address) as proxy:
        storage = _open(bucket, proxy.endpoint, "conditions")
        storage.write_once("key", b"x")
        storage.replace("key", b"y")
        puts = [parse_qs(urlsplit(seen.path).query) for seen in proxy.seen]
    assert [put.get("ifGenerationMatch") for put in puts] == [["0"], None]


@pytest.mark.parametrize("key", ["a//b", "a/./b", "a/../b", "/a", "a/", "..x", "tab\there"])
def test_odd_names_are_kept_as_they_are(gcs: GcsServer, bucket: str, key: str) -> None:
    root = f"odd-{quote(key, safe='')}"
    storage = _open(bucket, gcs.endpoint, root)
    storage.write_once(key, LARGE[: PART_BYTES + 1000])
    name = f"{root}/{key}"
    assert name in gcs.keys(bucket)
    assert storage.read(key) == gcs.read(bucket, name) == LARGE[: PART_BYTES + 1000]
    stat = storage.find_stat(key)
    with storage.open_reader(key) as reader:
        buffer = memoryview(bytearray(PART_BYTES + 2000))
        assert reader.readinto(buffer) == PART_BYTES + 1000
        assert reader.stat == stat
    storage.delete(key)
    assert name not in gcs.keys(bucket)


@pytest.mark.parametrize("key", ["line\nend", "return\r", "x" * 1025])
def test_names_that_google_does_not_have_are_refused(gcs: GcsServer, bucket: str, key: str) -> None:
    storage = _open(bucket, gcs.endpoint, "refused")
    for write in (
        lambda: storage.write_once(key, b"x"),
        lambda: storage.replace(key, b"x"),
        lambda: storage.open_writer(key).write(LARGE),
    ):
        with pytest.raises(StorageError, match="does not take this key") as caught:
            write()
        assert "\n" not in str(caught.value)
    assert not [name for name in gcs.keys(bucket) if name.startswith("refused")]


def test_a_listing_goes_on_where_a_page_ends(
    gcs: GcsServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:02d}" for number in range(50)]
    for name in names:
        gcs.write(bucket, f"pages/{name}", b"")
    with open_proxy(gcs.server.address) as proxy:
        storage = _open(bucket, proxy.endpoint, "pages")
        pages = storage.bucket._pages  # type: ignore[attr-defined]
        monkeypatch.setattr(
            storage.bucket,  # type: ignore[attr-defined]
            "_pages",
            lambda params, is_whole: pages({**params, "maxResults": "7"}, is_whole=is_whole),
        )
        assert list(storage.iter_keys("")) == names
        assert len(proxy.seen) == 8


def test_an_object_that_is_replaced_while_it_is_read_is_never_mixed(
    gcs: GcsServer, bucket: str
) -> None:
    storage = _open(bucket, gcs.endpoint, "changed")
    write_large(storage, b"1" * (3 * PART_BYTES))
    with storage.open_reader("large") as reader:
        buffer = memoryview(bytearray(3 * PART_BYTES))
        reader.readinto(buffer[:1000])
        gcs.write(bucket, "changed/large", b"2" * (3 * PART_BYTES))
        with pytest.raises(StorageError, match="it changed while it was read"):
            reader.readinto(buffer[1000:])


# places


def test_gs_and_gcs_are_one_place(gcs: GcsServer, bucket: str) -> None:
    assert canonical_location("gcs://b/x//y/") == canonical_location("gs://b/x/y")
    assert overlaps("gs://b/x", "gcs://b/x/y")
    assert not overlaps("gs://b/x", "s3://b/x")
    gcs.write(bucket, "place/key", b"x")
    stores = Stores(Access(gcs.properties))
    for scheme in ("gs", "gcs", "GS"):
        storage, key = stores.resolve(f"{scheme}://{bucket}/place/key")
        assert storage.read(key) == b"x"


# bad input


def _fails(operation: Callable[[], object]) -> StorageError:
    return fails(operation, [TOKEN])


def _tokens(proxy: Proxy) -> set[str | None]:
    seen = [{name.lower(): value for name, value in item.headers.items()} for item in proxy.seen]
    return {headers.get("authorization") for headers in seen}


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "delete"])
def test_a_missing_bucket_is_no_missing_key(gcs: GcsServer, operation: str) -> None:
    name = f"no-such-{operation.replace(' ', '-')}"
    storage = _open(name, gcs.endpoint, "root")
    error = _fails(lambda: OPERATIONS[operation](storage))
    if operation in {"read", "stream"}:  # the emulator says the same for both
        return
    assert "no such bucket" in str(error)
    assert "gcs.service.host" in error.hint


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("status", "words"), [(401, "credentials are not accepted"), (403, "access is denied")]
)
def test_a_token_that_is_refused_is_said(
    gcs: GcsServer, bucket: str, operation: str, status: int, words: str
) -> None:
    body = {"error": {"code": status, "message": "Invalid Credentials", "errors": []}}

    def rule(_: Request) -> None:
        raise Refuse(status, json.dumps(body).encode())

    with open_proxy(gcs.server.address) as proxy:
        proxy.rule = rule
        storage = _open(bucket, proxy.endpoint, "root")
        error = _fails(lambda: OPERATIONS[operation](storage))
        assert _tokens(proxy) == {f"Bearer {TOKEN}"}
    assert words in str(error)
    assert f"gs://{bucket}/root" in str(error)
    assert error.hint


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes is seen where the command is run."""
    monkeypatch.setattr("bcn.storage.requests._UNPROVEN_SECONDS", 1.0)
    monkeypatch.setattr("bcn.storage.http._FIRST_ANSWER_SECONDS", 2)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("operation", ["read", "list"])
def test_nobody_listens(bucket: str, operation: str) -> None:
    storage = _open(bucket, f"http://127.0.0.1:{free_port()}", "root")
    error = _fails(lambda: OPERATIONS[operation](storage))
    assert "connection refused" in str(error)
    assert "gcs.service.host" in error.hint


@pytest.mark.usefixtures("_hasty")
def test_there_is_no_such_host(bucket: str) -> None:
    storage = _open(bucket, "http://no-such-host.invalid", "root")
    assert "no such host" in str(_fails(lambda: OPERATIONS["look"](storage)))


@pytest.mark.parametrize(
    ("operation", "answer", "words"),
    [
        ("read", b"", "no answer"),
        ("read", b"\x80\x01\x00\x03\x00\x00", "does not speak"),
        ("list", b"\x80\x01\x00\x03\x00\x00", "does not speak"),
    ],
)
def test_a_port_that_speaks_something_else(
    bucket: str, operation: str, answer: bytes, words: str
) -> None:
    with silent_port(answer) as port:
        storage = _open(bucket, f"http://127.0.0.1:{port}", "root")
        error = _fails(lambda: OPERATIONS[operation](storage))
    assert words in str(error)
    assert "gcs.service.host" in error.hint


def test_https_to_a_port_without_it(gcs: GcsServer, bucket: str) -> None:
    endpoint = gcs.endpoint.replace("http:", "https:")
    for operation in ("read", "list"):
        storage = _open(bucket, endpoint, "root")
        error = _fails(lambda: OPERATIONS[operation](storage))  # noqa: B023  called at once
        assert "does not answer to https" in str(error)


@pytest.mark.parametrize("location", ["gs://user:secret@bucket/x", "gs://Bucket!/x"])
def test_what_is_no_bucket_is_not_shown(location: str) -> None:
    error = _fails(lambda: open_storage(StorageSpec(location)))
    assert "secret" not in str(error)


@pytest.mark.parametrize("host", ["ftp://host", "http://user:secret@host", "http://"])
def test_what_is_no_address_is_said_and_not_shown(bucket: str, host: str) -> None:
    error = _fails(lambda: _open(bucket, host, "root").find_stat("key"))
    assert "gcs.service.host is no address" in str(error)
    assert "secret" not in str(error)


# tokens


def test_a_token_that_has_expired_is_not_even_sent(gcs: GcsServer, bucket: str) -> None:
    with open_proxy(gcs.server.address) as proxy:
        for operation in OPERATIONS.values():
            storage = _open(
                bucket,
                proxy.endpoint,
                "root",
                **{"oauth2__token-expires-at": EXPIRED["gcs.oauth2.token-expires-at"]},
            )
            error = _fails(lambda: operation(storage))  # noqa: B023  called at once
            assert "gcs.oauth2.token has expired at 2023-11-14 22:13:20 UTC" in str(error)
        assert proxy.seen == []
    with pytest.raises(StorageError, match="'soon'"):
        _open(bucket, gcs.endpoint, "root", **{"oauth2__token-expires-at": "soon"})


def test_the_project_that_pays_is_named(gcs: GcsServer, bucket: str) -> None:
    gcs.write(bucket, "paid/key", b"x")
    with open_proxy(gcs.server.address) as proxy:
        more = {"requester-pays": "true", "project-id": "ours"}
        storage = _open(bucket, proxy.endpoint, "paid", **more)
        assert storage.read("key") == b"x"
        assert list(storage.iter_keys("")) == ["key"]
        seen = [{k.lower(): v for k, v in item.headers.items()} for item in proxy.seen]
    assert [headers["x-goog-user-project"] for headers in seen] == ["ours"] * 2


@pytest.fixture
def token_server() -> Iterator[tuple[str, list[str]]]:
    """Gives tokens as Google's does, to whoever asks; each is another one."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            token = {"access_token": f"token-{len(asked)}", "expires_in": 3600}
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(token).encode())

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/token", asked
    server.shutdown()
    server.server_close()
    thread.join()


def _service_account(folder: Path, token_uri: str) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    document = {
        "type": "service_account",
        "client_email": "bcn@project.iam.gserviceaccount.com",
        "private_key": key.decode(),
        "private_key_id": "1",
        "project_id": "project",
        "token_uri": token_uri,
    }
    path = folder / "account.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_application_default_credentials_are_used_and_asked_once(
    gcs: GcsServer,
    bucket: str,
    token_server: tuple[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, asked = token_server
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", _service_account(tmp_path, address))
    with open_proxy(gcs.server.address) as proxy:
        spec = StorageSpec(f"gs://{bucket}/adc", {"gcs.service.host": proxy.endpoint})
        storage = open_storage(spec)
        storage.write_once("key", b"x")
        assert storage.read("key") == b"x"
        sent = _tokens(proxy)
    assert sent == {"Bearer token-1"}
    assert len(asked) == 1


def test_no_credentials_at_all_are_said(gcs: GcsServer, bucket: str) -> None:
    spec = StorageSpec(f"gs://{bucket}/none", {"gcs.service.host": gcs.endpoint})
    error = _fails(lambda: open_storage(spec).find_stat("key"))
    assert "no credentials" in str(error)
    assert "gcs.anonymous" in error.hint


def test_an_account_whose_tokens_nobody_gives_is_said(
    gcs: GcsServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _service_account(tmp_path, f"http://127.0.0.1:{free_port()}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
    for operation in ("read", "list"):
        spec = StorageSpec(f"gs://{bucket}/{operation}", {"gcs.service.host": gcs.endpoint})
        error = _fails(lambda: OPERATIONS[operation](open_storage(spec)))  # noqa: B023  at once
        assert "cannot get a token" in str(error)


# there and back


@pytest.fixture
def warehouse(gcs: GcsServer, tmp_path: Path) -> Iterator[CloudMirror]:
    with mirrored_cloud(gcs, tmp_path / "mirror") as place:
        yield place


def test_tables_come_back_from_another_bucket(warehouse: CloudMirror, tmp_path: Path) -> None:
    check_round_trip(warehouse, tmp_path, [TOKEN])


def test_the_example_of_the_docs_works(
    warehouse: CloudMirror, gcs: GcsServer, tmp_path: Path
) -> None:
    told = {
        "http://127.0.0.1:4443": gcs.endpoint,
        "gs://warehouse": warehouse.location,
        "gs://backups": gcs.location(gcs.make_bucket()),
    }
    check_example(warehouse, tmp_path, "Google Cloud Storage", told)


# as its users run it


def test_the_command_says_in_one_line_what_is_wrong(
    gcs: GcsServer, bucket: str, tmp_path: Path
) -> None:
    dead = {**gcs.properties, "gcs.service.host": f"http://127.0.0.1:{free_port()}"}
    places = {
        "good": (f"gs://{bucket}/command", gcs.properties),
        "none": ("gs://no-such-bucket/command", gcs.properties),
        "dead": (f"gs://{bucket}/command", dead),
        "late": (f"gs://{bucket}/command", {**gcs.properties, **EXPIRED}),
    }
    check_command(tmp_path, places, [TOKEN])
