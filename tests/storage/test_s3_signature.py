"""Signatures are those of botocore, whatever is asked for."""

from __future__ import annotations

from datetime import UTC, datetime

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from bcn.storage.s3_signature import Signer, spell_path, spell_query

_WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_VALUES = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1)


class _Theirs(S3SigV4Auth):
    def payload(self, request: AWSRequest) -> str:
        return "UNSIGNED-PAYLOAD"


@given(
    method=st.sampled_from(["GET", "PUT", "HEAD", "DELETE"]),
    name=_WORDS,
    query=st.dictionaries(st.sampled_from(["partNumber", "uploadId", "a b"]), _WORDS),
    headers=st.dictionaries(st.sampled_from(["range", "x-amz-meta-a", "if-match"]), _VALUES),
    token=st.none() | _VALUES,
)
def test_any_request_is_signed_as_botocore_does(
    method: str, name: str, query: dict[str, str], headers: dict[str, str], token: str | None
) -> None:
    keys = Credentials("AKIA", "secret/+", token)
    path = f"/bucket/{spell_path(name)}"
    headers = {**headers, "host": "far.example:9000"}
    url = f"http://far.example:9000{path}?{spell_query(query)}"
    request = AWSRequest(method, url, headers=headers)
    _Theirs(keys, "s3", "eu-west-1").add_auth(request)
    at = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    found = Signer(keys, "eu-west-1").sign(method, path, query, headers, at)
    theirs = {name.lower(): value for name, value in request.headers.items()}
    assert {**found, "authorization": ""} == {**theirs, "authorization": ""}
    assert found["authorization"] == theirs["authorization"]


def test_keys_that_change_are_used_at_once() -> None:
    keys = Credentials("AKIA", "first")
    signer, at = Signer(keys, "r"), datetime(2026, 1, 1, tzinfo=UTC)
    first = signer.sign("GET", "/", {}, {}, at)
    keys.secret_key = "second"
    assert signer.sign("GET", "/", {}, {}, at) != first
    keys.secret_key = "first"
    assert signer.sign("GET", "/", {}, {}, at) == first
    assert signer.sign("GET", "/", {}, {}, at.replace(day=2)) != first
