"""A folder with settings and a repository of three PITs, which no test but its own can change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.made import Folder, make_folder, make_repository


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Settings, and no repository yet; also the current folder."""
    monkeypatch.delenv("BCN_REPO", raising=False)
    monkeypatch.chdir(tmp_path)
    return make_folder(tmp_path)


@pytest.fixture
def stocked(folder: Folder) -> Folder:
    """With a repository of three PITs."""
    make_repository(folder.location)
    return folder
