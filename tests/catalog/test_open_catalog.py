"""The factory: settings in, the right catalog out, nothing heavy imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bcn.catalog.open import CATALOG_TYPES, open_catalog
from bcn.catalog.protocol import CatalogSettings, public_location, strip_slashes
from bcn.errors import SettingsError


def test_each_known_type_opens_without_touching_anything(tmp_path: Path) -> None:
    uris = {"hive": "thrift://127.0.0.1:1", "rest": "http://127.0.0.1:1"}
    for kind in CATALOG_TYPES:
        uri = uris.get(kind, f"sqlite:///{tmp_path}/c.db")
        properties = {"warehouse": str(tmp_path / "wh"), "uri": uri}
        assert open_catalog(CatalogSettings("c", kind, properties)).name == "c"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_type_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match=r"known are glue, hadoop,.* sql"):
        open_catalog(CatalogSettings("c", "oracle", {}))


@pytest.mark.parametrize(("kind", "key"), [("hadoop", "warehouse"), ("sql", "uri")])
def test_a_missing_property_is_named(kind: str, key: str) -> None:
    with pytest.raises(SettingsError, match=f"catalog 'c' has no '{key}'"):
        open_catalog(CatalogSettings("c", kind, {}))


def test_the_text_form_of_settings_shows_no_property() -> None:
    settings = CatalogSettings("c", "sql", {"uri": "postgresql://u:hunter2@h/d"})
    assert "hunter2" not in repr(settings) + str(settings)


def test_a_hadoop_catalog_needs_neither_sqlalchemy_nor_pyiceberg(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from bcn.catalog.open import open_catalog\n"
        "from bcn.catalog.protocol import CatalogSettings\n"
        f"open_catalog(CatalogSettings('c', 'hadoop', {{'warehouse': {str(tmp_path)!r}}}))\n"
        "print(sorted({'sqlalchemy', 'pyiceberg', 'pyarrow', 'pyspark'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_slashes_of_a_scheme_are_kept() -> None:
    assert strip_slashes("/wh//") == "/wh"
    assert strip_slashes("file:///") == "file:///"
    assert strip_slashes("s3://bucket/") == "s3://bucket"


def test_user_and_password_are_left_out_of_a_public_location() -> None:
    assert public_location("s3://key:secret@bucket/wh") == "s3://bucket/wh"
    assert public_location("abfs://box@account.dfs.core.windows.net/wh").startswith("abfs://box@")
    assert public_location("/wh/a:b@c") == "/wh/a:b@c"
