"""Documents: rendered for people, checked when read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import DamagedRepositoryError, NewerVersionError
from bcn.repository.document import (
    check_checksum,
    checksum,
    parse_document,
    render_document,
    with_checksum,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
documents = st.dictionaries(st.text(), values, max_size=5).map(lambda d: {**d, "version": "1"})


@given(documents)
def test_what_is_rendered_is_parsed_back(document: dict[str, Any]) -> None:
    assert parse_document(render_document(document), "key") == document


@given(documents)
def test_a_checksum_is_found_right_however_the_document_is_laid_out(
    document: dict[str, Any],
) -> None:
    whole = with_checksum(document, "sum")
    again = json.loads(json.dumps(whole, indent=7))
    check_checksum(dict(reversed(again.items())), "sum", "key")


@given(documents, st.text(min_size=1), values)
def test_any_change_breaks_the_checksum(document: dict[str, Any], key: str, value: object) -> None:
    whole = with_checksum(document, "sum")
    changed = {**whole, key: value}
    if json.dumps(changed, sort_keys=True) != json.dumps(whole, sort_keys=True):
        with pytest.raises(DamagedRepositoryError, match="was changed"):
            check_checksum(changed, "sum", "key")


def test_a_checksum_is_what_the_format_says() -> None:
    document = {"b": 'é"\\\n\x01', "a": [1, None, True], "sum": "ignored"}
    text = '{"a":[1,null,true],"b":"é\\"\\\\\\n\\u0001"}'
    assert checksum(document, "sum") == hashlib.sha256(text.encode()).hexdigest()


def test_a_missing_checksum_is_damage() -> None:
    with pytest.raises(DamagedRepositoryError):
        check_checksum({"version": "1"}, "sum", "key")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"version": "1"',
        b"[]",
        b"null",
        b"{}",
        b'{"version": 1}',
        b'{"version": ""}',
        b'{"version": "one"}',
        b'{"version": "-1"}',
        '{"version": "²"}'.encode(),
        b'{"version": "' + b"1" * 5000 + b'"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_document_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedRepositoryError, match="the/key") as caught:
        parse_document(data, "the/key")
    assert not isinstance(caught.value, NewerVersionError)


@pytest.mark.parametrize("version", ["2", "10", "999999999"])
def test_a_newer_version_is_refused_with_a_hint_to_upgrade(version: str) -> None:
    with pytest.raises(NewerVersionError, match=version) as caught:
        parse_document(json.dumps({"version": version}).encode(), "key")
    assert "upgrade" in caught.value.hint


def test_keys_that_nobody_knows_pass_through() -> None:
    assert parse_document(b'{"version": "1", "later": {"x": 1}}', "key")["later"] == {"x": 1}
