"""A connection to one bucket: obstore's and botocore's, their failures as Faults."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

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
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from bcn.errors import StorageError
from bcn.storage.fault import Fault, Kind, fault_by_answer, fault_by_text
from bcn.storage.requests import Patience
from bcn.storage.s3_settings import CredentialProvider, S3Settings

Answer = TypeVar("Answer")

_CONNECT_SECONDS = 4
_FIRST_ANSWER_SECONDS = 8  # a port that speaks something else may never answer
_ANSWER_SECONDS = 60
_REQUEST_SECONDS = 600
# What a server may work on for long before it says a word.
_SLOW_SECONDS = {"copy_object": 600, "complete_multipart_upload": 600}
_POOL = 32


class S3Connection:
    """Requests to one bucket, tried again where that helps. Any thread may use it."""

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self.is_seen = False  # whether the bucket was; a missing key may mean a missing bucket
        self._patience = Patience()
        self._lock = threading.Lock()
        self._stores: dict[bool, S3Store] = {}
        self._clients: dict[int, Any] = {}

    def move(self, kind: str, request: Callable[[S3Store], Answer]) -> Answer:
        """A request by obstore. Raises Fault, StorageError."""

        def attempt() -> Answer:
            try:
                return request(self._store())
            except AlreadyExistsError:
                raise Fault(Kind.EXISTS) from None
            except (BaseError, OSError) as error:
                raise fault_by_text(str(error)) from None
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # it has no name to import
                    raise
                raise Fault(Kind.OTHER, str(error)) from None

        answer = self._patience.call(kind, attempt)
        self.is_seen = True
        return answer

    def ask(self, kind: str, operation: str, **values: Any) -> Any:
        """A request by botocore. Raises Fault, StorageError."""

        def attempt() -> Any:
            try:
                client = self._client(_SLOW_SECONDS.get(operation))
                answer = getattr(client, operation)(Bucket=self.settings.bucket, **values)
                if operation == "get_object":
                    answer["Data"] = memoryview(answer["Body"].read())
            except (ClientError, BotoCoreError) as error:
                raise _fault(error) from None
            return answer

        answer = self._patience.call(kind, attempt)
        self.is_seen = True
        return answer

    def _store(self) -> S3Store:
        proven = self._patience.is_proven
        with self._lock:
            if proven not in self._stores:
                self._stores[proven] = self._open_store(
                    _REQUEST_SECONDS if proven else _FIRST_ANSWER_SECONDS
                )
            return self._stores[proven]

    def _open_store(self, timeout_seconds: int) -> S3Store:
        settings = self.settings
        virtual, endpoint = settings.is_virtual_hosted, settings.endpoint
        config: Any = {
            "region": settings.region,
            "virtual_hosted_style_request": virtual,
            "skip_signature": settings.is_anonymous,
            "disable_bulk_delete": True,
        }
        if endpoint is not None:
            if virtual:  # obstore expects the bucket in it then
                endpoint = endpoint.replace("://", f"://{self.settings.bucket}.", 1)
            config["endpoint"] = config["aws_endpoint_url_s3"] = endpoint
        options: Any = {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "timeout": timedelta(seconds=timeout_seconds),
            "read_timeout": timedelta(seconds=min(timeout_seconds, _ANSWER_SECONDS)),
        }
        if settings.ca_bundle:
            options["root_certificate"] = _read_bundle(settings.ca_bundle)
        if not settings.is_anonymous:
            settings.credentials  # noqa: B018  what is wrong with them is told here
        return S3Store(
            self.settings.bucket,
            config=config,
            client_options=options,
            retry_config={"max_retries": 0},  # Patience knows what to try again
            credential_provider=None if settings.is_anonymous else CredentialProvider(settings),
        )

    def _client(self, slow_seconds: int | None) -> Any:
        seconds = slow_seconds or _ANSWER_SECONDS
        if not self._patience.is_proven:
            seconds = _FIRST_ANSWER_SECONDS
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


def _read_bundle(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read AWS_CA_BUNDLE {path}: {error.strerror}") from None


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
