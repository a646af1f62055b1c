"""`import bcn`: what is public, and that it costs nothing until it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bcn
from bcn.errors import BadNameError, UsageError
from bcn.repository.repository import Scope
from tests.cli.made import PITS, Folder


def test_every_public_name_is_there() -> None:
    for name in bcn.__all__:
        assert getattr(bcn, name) is not None
        assert name in dir(bcn)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        bcn.nope  # noqa: B018  asking for it is the test


def test_importing_bcn_imports_nothing_else() -> None:
    script = "import bcn, sys; print(*(name for name in sys.modules if name.startswith('bcn')))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"bcn", "bcn.version"}


def test_the_functions_read_the_settings_of_the_current_folder(stocked: Folder) -> None:
    assert [pit.pit for pit in bcn.api.list_pits().pits] == list(PITS)
    assert bcn.api.list_objects("repository", pit="latest~2").pit == PITS[0]
    assert bcn.api.describe(repo=f"file://{stocked.location}").catalog == "prod"
    assert bcn.api.find_catalog() == "prod"


def test_a_relative_place_starts_at_the_current_folder(folder: Folder) -> None:
    report = bcn.api.init("here/there")
    assert report.repository == f"{folder.root}/here/there"
    assert (folder.root / "here/there/manifest.json").is_file()


def test_names_make_a_scope() -> None:
    assert bcn.api.parse_scope(None, None, None) is None
    assert bcn.api.parse_scope("c", None, None) == Scope("c")
    assert bcn.api.parse_scope("c", "a.`b.c`", "t") == Scope("c", ("a", "b.c"), "t")
    with pytest.raises(UsageError):
        bcn.api.parse_scope(None, "a", None)
    with pytest.raises(UsageError):
        bcn.api.parse_scope("c", None, "t")
    with pytest.raises(BadNameError):
        bcn.api.parse_scope("c", "a..b", None)


def test_a_number_of_jobs_below_one_is_refused(stocked: Folder) -> None:
    with pytest.raises(UsageError, match="--jobs"):
        bcn.api.verify(jobs=0, level=1)
