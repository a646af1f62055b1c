"""The pages about the command line say what it does."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from bcn import errors
from bcn.cli.reference import render_cli, render_errors
from bcn.model import PitId
from bcn.repository.lease import LeaseSettings, Lessor
from tests.cli.made import START, Folder
from tests.cli.pages import DOCS, differences, examples


def test_the_page_of_commands_is_what_their_help_says() -> None:
    assert (DOCS / "cli.md").read_text() == render_cli()


def test_the_page_of_errors_is_what_the_classes_say() -> None:
    assert (DOCS / "errors.md").read_text() == render_errors()


def test_the_page_of_errors_has_every_class_and_every_exit_code() -> None:
    text = (DOCS / "errors.md").read_text()
    classes = [
        kind
        for _name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == "bcn.errors"
    ]
    assert len(classes) > 30
    for kind in classes:
        assert f"`{kind.__name__}`" in text
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    used = {kind.exit_code for kind in classes if issubclass(kind, errors.BcnError)}
    assert documented == used | {0, 130, 143}


def test_every_error_that_stops_people_has_a_hint_or_a_child_that_has() -> None:
    for kind in (errors.UsageError, errors.StorageError, errors.CatalogError, errors.RefusedError):
        assert any(child.hint for child in kind.__subclasses__())


def test_every_command_has_an_example_of_its_object() -> None:
    from bcn.cli.main import cli  # noqa: PLC0415  beside the one use

    names = {
        f"{name} {inner}".strip()
        for name, command in cli.commands.items()
        for inner in getattr(command, "commands", [""])
    }
    assert examples().keys() >= names | {"error", "list --pit"}


def test_the_comparison_with_the_page_can_fail() -> None:
    example = examples()["list"]
    assert differences(example, example) == []
    assert differences({**example, "more": 1}, example)
    assert differences({"repository": "x", "pits": []}, example)
    assert differences({**example, "pits": [{"pit": "x"}]}, example)
    assert differences({**example, "repository": 7}, example)


@pytest.mark.parametrize("command", ["list", "list --pit", "describe"])
def test_what_reading_prints_is_as_documented(stocked: Folder, command: str) -> None:
    arguments = [*command.split(), *(["latest"] if "--pit" in command else [])]
    printed = json.loads(stocked.invoke(*arguments, "--json").stdout)
    example = examples()[command]
    if command == "describe":
        example["pits"] = examples()["list"]["pits"]
    assert differences(printed, example) == []


def test_what_init_prints_is_as_documented(folder: Folder) -> None:
    printed = json.loads(folder.invoke("init", "--json").stdout)
    assert differences(printed, examples()["init"]) == []


def test_what_an_error_prints_is_as_documented(folder: Folder) -> None:
    _code, printed = folder.json("list")
    assert differences(printed, examples()["error"]) == []


def test_what_a_lease_and_unlock_print_is_as_documented(stocked: Folder) -> None:
    repository = stocked.repository
    later = PitId.of(START.replace(year=2027))
    lessor = Lessor(repository.storage, LeaseSettings(), lambda: START)
    with lessor.hold(later, repository.pit_key(later), None):
        described = json.loads(stocked.invoke("describe", "--json").stdout)
        unlocked = json.loads(stocked.invoke("unlock", "--force", "--json").stdout)
    assert described["lease"] is not None
    assert differences(described["lease"], examples()["describe"]["lease"]) == []
    assert unlocked["unlocked"] is True
    assert differences(unlocked, examples()["unlock"]) == []
