"""A connection to one bucket: objects go by wire, all else by botocore; failures are Faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.session import Session

from bcn.storage.bucket import Buffer
from bcn.storage.fault import Fault, Kind, fault_by_answer, fault_by_body
from bcn.storage.requests import Patience
from bcn.storage.s3_settings import S3Settings
from bcn.storage.s3_signature import Signer, spell_path, spell_query
from bcn.storage.wire import Answer, Wire

Found = TypeVar("Found")

_CONNECT_SECONDS = 4
_FIRST_ANSWER_SECONDS = 8  # a port that speaks something else may never answer
_ANSWER_SECONDS = 60
_SUCCESS, _FAILED = 2, 500
# What a server may work on for long before it says a word.
SLOW_SECONDS = 600
COPY_SOURCE = "x-amz-copy-source"
_POOL = 32


class Request(NamedTuple):
    """What is asked about one object."""

    method: str
    name: str
    headers: Mapping[str, str] = {}
    body: Buffer = b""
    query: Mapping[str, str] = {}
    seconds: float = _ANSWER_SECONDS

    @property
    def is_slow(self) -> bool:
        """Whether a server may begin its answer with 200 and find out later that it failed."""
        return self.method == "POST" or COPY_SOURCE in self.headers


class Reply(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    data: bytearray


class S3Connection:
    """Requests to one bucket, tried again where that helps. Any thread may use it."""

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self.is_seen = False  # whether the bucket was; a missing key may mean a missing bucket
        self._patience = Patience()
        self._lock = threading.Lock()
        self._clients: dict[int, Any] = {}

    def send(self, kind: str, request: Request) -> Reply:
        """A request by wire, its answer read. Raises Fault, StorageError."""

        def attempt() -> Reply:
            answer = self._try(request)
            data = answer.read()
            if request.is_slow and (b"<Error" in data or not data.strip()):
                raise fault_by_body(_FAILED, data)  # the server began to answer before it knew
            return Reply(answer.status, answer.headers, data)

        return self._settled(kind, attempt)

    def open(self, name: str, headers: Mapping[str, str]) -> Answer:
        """An object by wire, of which nothing is read yet. Raises Fault, StorageError."""
        return self._settled("get", lambda: self._try(Request("GET", name, headers)))

    def _settled(self, kind: str, attempt: Callable[[], Found]) -> Found:
        found = self._patience.call(kind, attempt)
        self.is_seen = True
        return found

    def _try(self, request: Request) -> Answer:
        method, query = request.method, request.query
        seconds = request.seconds if self._patience.is_proven else _FIRST_ANSWER_SECONDS
        path = f"{self._path}{spell_path(request.name)}"
        target = f"{path}?{spell_query(query)}" if query else path
        headers = self._sign(method, path, query, request.headers)
        answer = self._wire.send(method, target, headers, request.body, seconds)
        if answer.status // 100 != _SUCCESS:
            raise fault_by_body(answer.status, answer.read())
        return answer

    def _sign(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Mapping[str, str]:
        headers = {**headers, "host": self._wire.host}
        if self.settings.is_anonymous:
            return headers
        try:
            return self._signer.sign(method, path, query, headers)
        except (ClientError, BotoCoreError) as error:
            raise Fault(Kind.CREDENTIALS, str(error)) from None

    @cached_property
    def _signer(self) -> Signer:
        return Signer(self.settings.credentials, self.settings.region)

    @cached_property
    def _base(self) -> SplitResult:
        """Where the service is. Which of AWS's hosts has a region botocore knows."""
        settings = self.settings
        base = urlsplit(settings.endpoint or self._client().meta.endpoint_url)
        if settings.is_virtual_hosted:
            return base._replace(netloc=f"{settings.bucket}.{base.netloc}")
        return base

    @cached_property
    def _wire(self) -> Wire:
        return Wire(self._base.geturl(), self.settings.ca_bundle)

    @cached_property
    def _path(self) -> str:
        """What is before the name of every object."""
        bucket = "" if self.settings.is_virtual_hosted else f"/{self.settings.bucket}"
        return f"{self._base.path.rstrip('/')}{bucket}/"

    def ask(self, kind: str, operation: str, **values: Any) -> Any:
        """A request by botocore. Raises Fault, StorageError."""

        def attempt() -> Any:
            try:
                return getattr(self._client(), operation)(Bucket=self.settings.bucket, **values)
            except (ClientError, BotoCoreError) as error:
                raise _fault(error) from None

        return self._settled(kind, attempt)

    def _client(self) -> Any:
        seconds = _ANSWER_SECONDS if self._patience.is_proven else _FIRST_ANSWER_SECONDS
        with self._lock:
            if seconds not in self._clients:
                self._clients[seconds] = self._open_client(seconds)
            return self._clients[seconds]

    def _open_client(self, answer_seconds: int) -> Any:
        settings = self.settings
        config = Config(
            s3={
                "addressing_style": "virtual" if settings.is_virtual_hosted else "path",
                "payload_signing_enabled": False,  # parts have a checksum, which costs a tenth
            },
            retries={"total_max_attempts": 1},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=answer_seconds,
            max_pool_connections=_POOL,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            signature_version=UNSIGNED if settings.is_anonymous else None,
        )
        session = Session()
        if not settings.is_anonymous:
            session._credentials = settings.credentials  # the only way to have them renewed
        return session.create_client(
            "s3",
            endpoint_url=settings.endpoint,
            region_name=settings.region,
            verify=settings.ca_bundle,
            config=config,
        )


def _fault(error: ClientError | BotoCoreError) -> Fault:
    if isinstance(error, ClientError):
        answer = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code, message = answer["Error"].get("Code", ""), answer["Error"].get("Message", "")
        return fault_by_answer(status, "" if code.isdigit() else code, message)
    for kinds, kind, detail in (
        ((SSLError,), Kind.TLS, ""),
        ((ConnectTimeoutError, ReadTimeoutError), Kind.TIMEOUT, ""),
        ((NoCredentialsError,), Kind.CREDENTIALS, "there are none"),
        ((BotoConnectionError, HTTPClientError, IncompleteReadError), Kind.CONNECTION, ""),
    ):
        if isinstance(error, kinds):
            return Fault(kind, detail)
    return Fault(Kind.OTHER, str(error))
