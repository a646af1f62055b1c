"""What went wrong between us and an object store, told apart by what can be done about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from html import unescape

from bcn.errors import (
    KeyExistsError,
    MissingKeyError,
    ReadOnlyStorageError,
    StorageError,
    StorageFullError,
)


class Kind(Enum):
    """Kinds of faults."""

    MISSING = "there is nothing under this key"
    NO_BUCKET = "there is no such bucket"
    EXISTS = "the key is taken"
    CHANGED = "it changed while it was read"
    DENIED = "access is denied"
    CREDENTIALS = "the credentials are not accepted"
    EXPIRED = "the credentials have expired"
    SKEW = "this machine's clock and the server's are too far apart"
    REGION = "the bucket is in another region"
    BUSY = "the server asks to slow down, for too long"
    SERVER = "the server failed"
    CONNECTION = "no connection"
    TIMEOUT = "no answer"
    TLS = "the server's certificate is not trusted"
    PROTOCOL = "what answers there does not speak {service}"
    RANGE = "the range lies outside"
    WHOLE_ONLY = "the server knows no ranges"
    NO_UPLOAD = "the upload is gone"
    UNSUPPORTED = "the server cannot do that"
    FULL = "no space is left"
    KEY = "the server does not take this key"
    OTHER = "it failed"


@dataclass(frozen=True, slots=True)
class _Words:
    """How messages name what a kind of store is set up with."""

    service: str
    endpoint: str
    credentials: str
    ca: str


_WORDS: Mapping[str, _Words] = {
    "s3": _Words(
        "S3",
        "s3.endpoint",
        "s3.access-key-id and s3.secret-access-key, AWS_* or the profile",
        "AWS_CA_BUNDLE",
    ),
    "gs": _Words(
        "the API of Cloud Storage",
        "gcs.service.host",
        "gcs.oauth2.token, or GOOGLE_APPLICATION_CREDENTIALS and 'gcloud auth'",
        "SSL_CERT_FILE",
    ),
    "az": _Words(
        "the API of Azure Blob Storage",
        "adls.account-name, or adls.blob-storage-authority and adls.blob-storage-scheme",
        "adls.account-key, adls.sas-token, adls.client-secret or AZURE_*",
        "SSL_CERT_FILE",
    ),
}

_HINTS: Mapping[Kind, str] = {
    Kind.NO_BUCKET: "make the bucket, or correct its name and {endpoint}",
    Kind.DENIED: "check what these credentials may do: read, list, write, delete;"
    " without permission to list, a missing key looks like this, too",
    Kind.CREDENTIALS: "check {credentials}",
    Kind.EXPIRED: "get new credentials and run the same command again",
    Kind.SKEW: "set this machine's clock (NTP)",
    Kind.REGION: "set s3.region to the bucket's region",
    Kind.BUSY: "run it again later, or slower with --limit-rate",
    Kind.SERVER: "look at the server's log, then run the same command again",
    Kind.CONNECTION: "check {endpoint}: host, port (one that speaks something else breaks off),"
    " and that the server runs",
    Kind.TIMEOUT: "check {endpoint} (a port that speaks something else may never answer), the"
    " network and proxies",
    Kind.TLS: "add the server's CA to {ca}, or correct https in {endpoint}",
    Kind.PROTOCOL: "check the port and http or https of {endpoint}",
}

_MAY_NOT: Mapping[str, str] = {
    "write": "let these credentials write and delete there, or use others: {credentials}",
    "delete": "let these credentials write and delete there, or use others: {credentials}",
    "list": "let these credentials list what is there, or use others: {credentials}",
}

KINDS_BY_CODE: Mapping[str, Kind] = {
    "NoSuchKey": Kind.MISSING,
    "NoSuchBucket": Kind.NO_BUCKET,
    "NoSuchUpload": Kind.NO_UPLOAD,
    "PreconditionFailed": Kind.EXISTS,
    "AccessDenied": Kind.DENIED,
    "AllAccessDisabled": Kind.DENIED,
    "InvalidAccessKeyId": Kind.CREDENTIALS,
    "SignatureDoesNotMatch": Kind.CREDENTIALS,
    "InvalidToken": Kind.CREDENTIALS,
    "InvalidTokenId": Kind.CREDENTIALS,
    "InvalidClientTokenId": Kind.CREDENTIALS,
    "ExpiredToken": Kind.EXPIRED,
    "ExpiredTokenException": Kind.EXPIRED,
    "RequestTimeTooSkewed": Kind.SKEW,
    "RequestExpired": Kind.SKEW,
    "PermanentRedirect": Kind.REGION,
    "AuthorizationHeaderMalformed": Kind.REGION,
    "IllegalLocationConstraintException": Kind.REGION,
    "SlowDown": Kind.BUSY,
    "SlowDownRead": Kind.BUSY,
    "SlowDownWrite": Kind.BUSY,
    "ServiceUnavailable": Kind.BUSY,
    "Throttling": Kind.BUSY,
    "ThrottlingException": Kind.BUSY,
    "RequestLimitExceeded": Kind.BUSY,
    "TooManyRequests": Kind.BUSY,
    "ConditionalRequestConflict": Kind.BUSY,
    "OperationAborted": Kind.BUSY,
    "BucketAlreadyOwnedByYou": Kind.EXISTS,
    "InternalError": Kind.SERVER,
    "RequestTimeout": Kind.SERVER,
    "IncompleteBody": Kind.SERVER,
    "InvalidRange": Kind.RANGE,
    "NotImplemented": Kind.UNSUPPORTED,
    "QuotaExceeded": Kind.FULL,
    "XMinioStorageFull": Kind.FULL,
    "XMinioAdminBucketQuotaExceeded": Kind.FULL,
    "XMinioInvalidObjectName": Kind.KEY,
    "XMinioInvalidResourceName": Kind.KEY,
    "KeyTooLongError": Kind.KEY,
    # Google's own
    "AuthenticationRequired": Kind.CREDENTIALS,
    "InvalidSecurity": Kind.CREDENTIALS,
    # Azure's own
    "BlobNotFound": Kind.MISSING,
    "ResourceNotFound": Kind.MISSING,
    "ContainerNotFound": Kind.NO_BUCKET,
    "ContainerBeingDeleted": Kind.NO_BUCKET,
    "BlobAlreadyExists": Kind.EXISTS,
    "ConditionNotMet": Kind.EXISTS,
    "AuthenticationFailed": Kind.CREDENTIALS,
    "InvalidAuthenticationInfo": Kind.CREDENTIALS,
    "NoAuthenticationInformation": Kind.CREDENTIALS,
    "AuthorizationFailure": Kind.DENIED,
    "AuthorizationPermissionMismatch": Kind.DENIED,
    "AuthorizationResourceTypeMismatch": Kind.DENIED,
    "AuthorizationServiceMismatch": Kind.DENIED,
    "InsufficientAccountPermissions": Kind.DENIED,
    "PublicAccessNotPermitted": Kind.DENIED,
    "BlobImmutableDueToPolicy": Kind.DENIED,
    "ServerBusy": Kind.BUSY,
    "OperationTimedOut": Kind.SERVER,
    "InvalidBlockList": Kind.NO_UPLOAD,
    "InvalidResourceName": Kind.KEY,
    "InvalidUri": Kind.KEY,
}
_KINDS_BY_STATUS: Mapping[int, Kind] = {
    301: Kind.REGION,
    307: Kind.REGION,
    401: Kind.CREDENTIALS,
    403: Kind.DENIED,
    404: Kind.MISSING,
    408: Kind.SERVER,
    409: Kind.BUSY,
    412: Kind.EXISTS,
    416: Kind.RANGE,
    429: Kind.BUSY,
    499: Kind.SERVER,  # MinIO, while it is being stopped
    501: Kind.UNSUPPORTED,
    503: Kind.BUSY,
    507: Kind.FULL,
}
_SERVER_STATUS = 500
_NOT_AUTHENTICATED = "Server failed to authenticate"  # Azure has more codes for it than one


class Fault(Exception):  # noqa: N818  inside storage only; what callers see are errors
    """A failed request: its kind, and the server's own words for it."""

    def __init__(self, kind: Kind, detail: str = "", status: int | None = None) -> None:
        super().__init__(kind, detail, status)
        self.kind = kind
        self.detail = detail
        self.status = status

    def error(self, verb: str, place: str) -> StorageError:
        """As what the rest of bcn knows; one line. A place begins with the scheme of its store."""
        words = _WORDS[place.partition("://")[0].lstrip("'\"")]  # odd names are quoted
        detail = f" ({' '.join(self.detail.split())})" if self.detail else ""
        text = f"cannot {verb} {place}: {self.kind.value.format(service=words.service)}{detail}"
        hint = _HINTS.get(self.kind, "")
        if self.kind is Kind.DENIED:
            hint = _MAY_NOT.get(verb, hint)
        hint = hint.format(**asdict(words))
        if self.kind is Kind.MISSING:
            return MissingKeyError(text)
        if self.kind is Kind.EXISTS:
            return KeyExistsError(f"{place} is there already")
        if self.kind is Kind.FULL:
            return StorageFullError(text)
        if self.kind is Kind.DENIED and verb in {"write", "delete"}:
            return ReadOnlyStorageError(text, hint=hint)
        return StorageError(text, hint=hint)


def fault_by_answer(status: int | None, code: str, message: str = "") -> Fault:
    """What an answer of the server means; its code says more than its status."""
    kind = KINDS_BY_CODE.get(code)
    if kind is None:
        kind = _KINDS_BY_STATUS.get(status or 0, Kind.OTHER)
        if kind is Kind.OTHER and (status or 0) >= _SERVER_STATUS:
            kind = Kind.SERVER
    if message.startswith(_NOT_AUTHENTICATED):
        kind = Kind.CREDENTIALS
    known = kind in {Kind.MISSING, Kind.EXISTS}
    words = (
        "" if known else ": ".join(word for word in (code or str(status or ""), message) if word)
    )
    return Fault(kind, words, status)


_STATUS = re.compile(r"status code: (\d+)")
_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]*)")  # Azure numbers its requests in further lines
_TLS_WORDS = ("InvalidCertificate", "invalid peer certificate", "UnknownIssuer", "UnknownCA")


def fault_by_text(text: str) -> Fault:
    """What obstore's text of an error means: it has no fields to ask."""
    found = _STATUS.search(text)
    if found is not None:
        return _fault_by_words(int(found[1]), text)
    for words, kind, detail in (
        (_TLS_WORDS, Kind.TLS, ""),
        (("InvalidContentType", "CorruptMessage"), Kind.PROTOCOL, "it does not answer to https"),
        (("lookup address", "dns error", "Name or service"), Kind.CONNECTION, "no such host"),
        (("Connection refused", "ConnectionRefused"), Kind.CONNECTION, "connection refused"),
        (("NotPartial",), Kind.WHOLE_ONLY, ""),
        (("kind: Timeout", "TimedOut", "timed out"), Kind.TIMEOUT, ""),
        (("Parse(", "InvalidHeader", "invalid HTTP"), Kind.PROTOCOL, ""),
        (("credential",), Kind.CREDENTIALS, text.splitlines()[0]),
        (("IncompleteMessage", "ConnectionReset", "BrokenPipe"), Kind.CONNECTION, "it broke off"),
        (("kind: ", "error decoding response body"), Kind.CONNECTION, ""),
    ):
        if any(word in text for word in words):
            return Fault(kind, detail)
    return Fault(Kind.OTHER, text.splitlines()[0] if text else "")


def fault_by_body(status: int, body: bytes | bytearray) -> Fault:
    """What the XML of an error means; an answer to HEAD has none."""
    return _fault_by_words(status, body.decode(errors="replace"))


def _fault_by_words(status: int, text: str) -> Fault:
    code, message = _CODE.search(text), _MESSAGE.search(text)
    said = unescape(message[1]) if message else ""
    return fault_by_answer(status, code[1] if code else "", said)
