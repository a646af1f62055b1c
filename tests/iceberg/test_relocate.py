"""The one rule by which locations match roots and move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import UnknownRootError
from bcn.iceberg.relocate import Move, Moves, lies_under

SEGMENT = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1)
ROOT = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join).map("s3://".__add__)
TAIL = st.lists(SEGMENT | st.just(""), max_size=4).map(
    lambda parts: "".join(f"/{p}" for p in parts)
)


@given(ROOT, ROOT, TAIL)
def test_a_location_under_a_root_keeps_everything_behind_the_root(old, new, tail):
    assert Moves([Move(old, new)]).apply(old + tail) == new + tail


@given(ROOT, ROOT, TAIL)
def test_moving_there_and_back_gives_the_same_location(old, new, tail):
    moves = Moves([Move(old, new)])
    assert moves.reversed().apply(moves.apply(old + tail)) == old + tail


@given(ROOT, SEGMENT)
def test_a_root_ends_at_a_slash_only(root, more):
    assert not lies_under(root + more, root)
    with pytest.raises(UnknownRootError):
        Moves([Move(root, "s3://new")]).apply(root + more)


@given(ROOT, SEGMENT, TAIL, st.booleans())
def test_the_longest_root_decides_whatever_the_order(root, segment, tail, swapped):
    inner = f"{root}/{segment}"
    moves = [Move(root, "file:/outer"), Move(inner, "file:/inner")]
    chosen = Moves(reversed(moves) if swapped else moves)
    assert chosen.apply(inner + tail) == "file:/inner" + tail
    assert chosen.apply(root) == "file:/outer"


def test_spellings_are_not_normalised():
    moves = Moves([Move("s3a://b/t", "gs://n/t")])
    assert moves.apply("s3a://b/t//a%20b/../c=%3A+#?x/") == "gs://n/t//a%20b/../c=%3A+#?x/"
    for other in ("s3://b/t/x", "S3A://b/t/x", "s3a://b//t/x", "s3a:/b/t/x", ""):
        assert moves.find(other) is None


def test_composed_and_decomposed_letters_are_different_roots():
    with pytest.raises(UnknownRootError):
        Moves([Move("/w/\u00e9", "/n")]).apply("/w/e\u0301/x")


def test_a_root_cannot_go_to_two_places():
    with pytest.raises(ValueError, match="two targets for root '/a'"):
        Moves([Move("/a", "/b"), Move("/a", "/c")])


def test_the_same_move_twice_is_one_move():
    assert Moves([Move("/a", "/b"), Move("/a", "/b")]).moves == (Move("/a", "/b"),)


def test_roots_that_met_in_one_place_come_back_as_one_of_them():
    moves = Moves([Move("s3a://b/t", "/n"), Move("s3://b/t", "/n")])
    assert moves.reversed().apply("/n/x") in {"s3a://b/t/x", "s3://b/t/x"}


def test_identity_is_known():
    assert Moves([Move("/a", "/a")]).is_identity
    assert not Moves([Move("/a", "/a"), Move("/b", "/c")]).is_identity


def test_the_error_names_the_location():
    with pytest.raises(UnknownRootError, match="no known root for '/x/y'"):
        Moves([]).apply("/x/y")
