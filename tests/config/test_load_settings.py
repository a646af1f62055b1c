"""Where settings come from, what overrides what, and what a wrong one is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bcn.catalog.protocol import CatalogSettings
from bcn.config.load import find_file, load_settings
from bcn.config.settings import LeaseSettings, RepositorySettings, Settings
from bcn.errors import SettingsError, UnknownCatalogError

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


def load(folder: Path, text: str | None = None, **environ: str) -> Settings:
    if text is not None:
        (folder / "bcn.toml").write_text(text)
    return load_settings(None, environ, folder)


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings == Settings(folder=str(tmp_path))
    assert settings.lease == LeaseSettings(ttl_seconds=60)


def test_the_example_of_the_documentation_loads_as_it_says(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    settings = load(tmp_path, example, HOME="/users/ada")
    assert settings.catalog("prod") == CatalogSettings(
        "prod",
        "sql",
        {
            "uri": "sqlite:////var/lib/iceberg/catalog.db",
            "warehouse": "/var/lib/iceberg/warehouse",
            "name": "spark_prod",
            "s3.region": "eu-central-1",
        },
    )
    lake = {"warehouse": f"{tmp_path}/lake"}
    assert settings.catalog("lake") == CatalogSettings("lake", "hadoop", lake)
    nightly = RepositorySettings("nightly", "/users/ada/backups/nightly")
    assert settings.repository("nightly") == nightly
    assert settings.spark == {"master": "local[*]", "spark.driver.memory": "2g"}
    assert settings.lease == LeaseSettings(60)


def test_every_variable_of_the_documentation_sets_what_it_says(tmp_path: Path) -> None:
    rows = re.findall(r"\| `(BCN_\w+)` \| `([\w.-]+)` in `\[([\w.]+)\]`", DOCS.read_text())
    assert len(rows) == 6
    environ = {variable: "7" for variable, _key, _section in rows}
    text = '[catalogs.prod]\ntype = "hadoop"\nwarehouse = "/w"\n'
    settings = load(tmp_path, text, **environ)
    here = f"{tmp_path}/7"
    assert settings.catalog("prod").properties == {"warehouse": here, "s3.access-key-id": "7"}
    assert settings.repositories == {"nightly": RepositorySettings("nightly", here)}
    assert settings.spark == {"master": "7", "spark.driver.memory": "7"}
    assert settings.lease == LeaseSettings(7)
    assert {key for _variable, key, _section in rows} == {
        "warehouse", "s3.access-key-id", "location", "master", "spark.driver.memory", "ttl-seconds",
    }  # fmt: skip


def test_the_nearest_file_upward_is_found_then_the_users_own(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    user = tmp_path / "xdg" / "bcn" / "bcn.toml"
    home = tmp_path / "home" / ".config" / "bcn" / "bcn.toml"
    for path in (user, home):
        path.parent.mkdir(parents=True)
        path.write_text("")
    environ = {"HOME": str(tmp_path / "home")}
    assert find_file({}, inner) is None
    assert find_file(environ, inner) == home
    assert find_file({**environ, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}, inner) == user
    (tmp_path / "bcn.toml").write_text("")
    assert find_file(environ, inner) == tmp_path / "bcn.toml"
    (tmp_path / "a" / "bcn.toml").write_text("")
    assert find_file(environ, inner) == tmp_path / "a" / "bcn.toml"


def test_a_file_that_was_asked_for_is_the_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "bcn.toml").write_text("[lease]\nttl-seconds = 1\n")
    (tmp_path / "other.toml").write_text("[lease]\nttl-seconds = 2\n")
    assert load_settings(Path("other.toml"), {}, tmp_path).lease.ttl_seconds == 2
    with pytest.raises(SettingsError, match=r"cannot read .*missing\.toml: no such file"):
        load_settings(Path("missing.toml"), {}, tmp_path)


def test_relative_paths_start_at_the_file_or_at_the_current_folder(tmp_path: Path) -> None:
    text = """
    [catalogs.a]
    type = "hadoop"
    warehouse = "../wh"
    [catalogs.b]
    type = "hadoop"
    warehouse = "file:///x/../%20"
    [repositories.r]
    location = "s3://b/../k"
    """
    inner = tmp_path / "conf" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "conf" / "bcn.toml").write_text(text)
    environ = {"BCN_REPOSITORIES__E__LOCATION": "./repo", "HOME": "/users/ada"}
    settings = load_settings(None, environ, inner)
    assert settings.catalog("a").properties["warehouse"] == f"{tmp_path}/wh"
    assert settings.catalog("b").properties["warehouse"] == "file:///x/../%20"
    assert settings.repository("r").location == "s3://b/../k"
    assert settings.repository("e").location == f"{inner}/repo"
    assert settings.repository("x/y") == RepositorySettings("", f"{inner}/x/y")
    assert settings.repository("~/y").location == "/users/ada/y"
    assert settings.repository("/x//y/").location == "/x//y/"
    assert settings.repository("file:/x").location == "file:/x"


def test_the_environment_overrides_the_file_and_finds_its_spelling(tmp_path: Path) -> None:
    text = """
    [catalogs.My-Cat]
    type = "sql"
    uri = "sqlite:////a.db"
    pool_pre_ping = true
    [spark]
    "spark.driver.maxResultSize" = 1
    """
    settings = load(
        tmp_path,
        text,
        BCN_CATALOGS__MY_CAT__URI="sqlite:////b.db",
        BCN_CATALOGS__MY_CAT__POOL_PRE_PING="false",
        BCN_CATALOGS__MY_CAT__PY_IO_IMPL="x",
        BCN_CATALOGS__NEW_ONE__TYPE="hadoop",
        BCN_CATALOGS__NEW_ONE__WAREHOUSE="/wh",
        BCN_SPARK__SPARK__DRIVER__MAXRESULTSIZE="2g",
        BCN_COLOR="never",
        BCNX__LEASE="x",
    )
    assert settings.catalog("My-Cat").properties == {
        "uri": "sqlite:////b.db",
        "pool_pre_ping": "false",
        "py-io-impl": "x",
    }
    assert settings.catalog("new_one") == CatalogSettings("new_one", "hadoop", {"warehouse": "/wh"})
    assert settings.spark == {"spark.driver.maxResultSize": "2g"}


def test_values_become_texts_as_libraries_take_them(tmp_path: Path) -> None:
    text = '[catalogs.c]\ntype = "sql"\nuri = "sqlite:////a"\necho = true\ns3.retries = 3\n'
    properties = load(tmp_path, text).catalog("c").properties
    assert properties == {"uri": "sqlite:////a", "echo": "true", "s3.retries": "3"}


SQL = '[catalogs.c]\ntype = "sql"\nuri = "sqlite:////a"\n'

FAULTS = [
    ("[catalog.prod]", r"unknown section \[catalog\], did you mean 'catalogs'\?"),
    ("[zzzz]", r"unknown section \[zzzz\]$"),
    ("lease = 5", r"'lease' must be a section"),
    ('[catalogs]\nprod = "x"', r"'prod' stands in \[catalogs\], but belongs in \[catalogs\.NAME\]"),
    (SQL + 'warehose = "x"', r"\[catalogs\.c\] warehose: .*did you mean 'warehouse'"),
    (SQL + "warehouse = 5", r"\[catalogs\.c\] warehouse: must be a text"),
    (SQL + "name = 1.5", r"\[catalogs\.c\] name: must be a text, a number"),
    (SQL + "name = []", r"\[catalogs\.c\] name: must be a text, a number"),
    ("[catalogs.c]", r"\[catalogs\.c\] has no 'type'; known types: glue, hadoop,.* sql"),
    ('[catalogs.c]\ntype = "sqll"', r"type: unknown type.*did you mean 'sql'\?; known types: glue"),
    ("[catalogs.c]\ntype = 5", r"unknown type of catalog; known types: glue, hadoop,.* sql"),
    ('[catalogs.c]\ntype = "hadoop"', r"\[catalogs\.c\] has no 'warehouse'"),
    ('[catalogs.c]\ntype = "hadoop"\nwarehouse = ""', r"warehouse: must not be empty"),
    ('[catalogs.c]\ntype = "hadoop"\nwarehouse = "/w"\nuri = "x"', r"unknown key 'uri'"),
    ("[repositories.r]", r"\[repositories\.r\] has no 'location'"),
    ('[repositories.r]\nlocatoin = "x"', r"did you mean 'location'"),
    ('[spark]\nmastr = "x"', r"\[spark\] mastr: .*did you mean 'master'"),
    ("[lease]\nttl = 5", r"\[lease\] ttl: unknown key 'ttl'"),
    ("[lease]\nttl-seconds = 0", r"\[lease\] ttl-seconds: must be a whole number above 0"),
    ("[lease]\nttl-seconds = true", r"ttl-seconds: must be a whole number"),
    ('[lease]\nttl-seconds = "1e3"', r"ttl-seconds: must be a whole number"),
    ("[lease]\nttl-seconds = -5", r"ttl-seconds: must be a whole number"),
    ("[lease]\nttl-seconds 5", r"is not TOML: .*line 2"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_a_fault_in_a_file_is_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/bcn.toml")
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_utf_8_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "bcn.toml").write_bytes(b"# \xff")
    with pytest.raises(SettingsError, match="not UTF-8 at byte 2"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("BCN_CATALOG__PROD__URI", "unknown section 'catalog', did you mean 'catalogs'"),
        ("BCN_CATALOGS__PROD", r"names no key of \[catalogs\.prod\]"),
        ("BCN_LEASE__", r"names no key of \[lease\]"),
        ("BCN_LEASE__TTL_SECONDS", "must be a whole number above 0"),
        ("BCN_LEASE__TTL", "unknown key 'ttl'"),
        ("BCN_CATALOGS__NEW__WAREHOUSE", r"\[catalogs\.new\] has no 'type'"),
        ("BCN_CATALOGS__A_B__WAREHOUSE", "stands for both 'a-b' and 'a_b'"),
    ],
)
def test_a_fault_in_the_environment_is_named_with_its_variable(
    tmp_path: Path, variable: str, message: str
) -> None:
    text = "".join(
        f'[catalogs.{name}]\ntype = "hadoop"\nwarehouse = "/w"\n' for name in ("a-b", "a_b")
    )
    with pytest.raises(SettingsError, match=f"^{variable}: .*{message}"):
        load(tmp_path, text, **{variable: "x"})


def test_an_unknown_catalog_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    text = "".join(
        f'[catalogs.{name}]\ntype = "hadoop"\nwarehouse = "/w"\n' for name in ("prod", "dev")
    )
    settings = load(tmp_path, text)
    with pytest.raises(UnknownCatalogError, match=r"did you mean 'prod'.*known: dev, prod"):
        settings.catalog("prd")
    with pytest.raises(UnknownCatalogError, match="known: none is configured"):
        Settings().catalog("prod")


def test_loading_settings_imports_nothing_heavy_and_is_quick(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom bcn.config.load import load_settings\n"
        "load_settings(None, {}, Path('.'))\n"
        "heavy = {'sqlalchemy', 'pyiceberg', 'pyarrow', 'pyspark', 'numpy', 'numba'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert done.stdout == "[]\n"
    assert time.perf_counter() - started < 2  # about 0.1 on an idle machine
