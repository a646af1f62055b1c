"""What Spark is told of a catalog, as files and command lines take it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from bcn.catalog.spark_side import SparkSide, spark_side
from bcn.config.secrets import redact
from bcn.config.settings import Settings
from bcn.model import Json

_IN_VALUE = re.compile(r"[\\\n]")
_IN_KEY = re.compile(r"[\\\n :=#!]")  # what would end a key, or begin a comment


@dataclass(frozen=True, slots=True)
class SparkReport:
    """Spark's settings for one catalog; secrets are in it only if they were asked for."""

    catalog: str  # the section
    name: str  # in Spark
    settings: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    left_out: tuple[str, ...]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "catalog": self.catalog,
            "name": self.name,
            "settings": [{"key": key, "value": value} for key, value in self.settings.items()],
            "environment": [
                {"key": key, "value": value} for key, value in self.environment.items()
            ],
            "left_out": list(self.left_out),
        }

    def defaults_lines(self) -> list[str]:
        """Lines of a spark-defaults.conf, which is a file of Java properties."""
        return [
            f"{_in_file(key, _IN_KEY)} {_in_file(value)}" for key, value in self.settings.items()
        ]

    def command_line(self) -> str:
        """A shell's line that starts Spark SQL."""
        variables = (f"{key}={shlex.quote(value)}" for key, value in self.environment.items())
        settings = (f"--conf {shlex.quote(f'{k}={v}')}" for k, v in self.settings.items())
        return " \\\n  ".join((" ".join((*variables, "spark-sql")), *settings))


def report_spark(settings: Settings, name: str, *, show_secrets: bool) -> SparkReport:
    """What Spark needs to open the catalog of a section. Raises SettingsError."""
    side = spark_side(settings.catalog(name))
    shown = side.settings if show_secrets else _redacted(side)
    variables = side.environment if show_secrets else redact(side.environment)
    return SparkReport(name, side.name, {**_packages(side), **shown}, variables, side.left_out)


def _packages(side: SparkSide) -> dict[str, str]:
    found = {"spark.jars.packages": ",".join(side.packages)}
    if side.excludes:
        found["spark.jars.excludes"] = ",".join(side.excludes)
    return found


def _redacted(side: SparkSide) -> dict[str, str]:
    """By the names of its own options: a catalog may be called `keys`."""
    found = {}
    for key, value in side.settings.items():
        option = key.removeprefix(side.prefix)
        is_own = option != key
        found[key] = redact({option: value})[option] if is_own else value
    return found


def _in_file(text: str, special: re.Pattern[str] = _IN_VALUE) -> str:
    """As a file of Java properties escapes it."""
    return special.sub(lambda sign: "\\" + sign[0].replace("\n", "n"), text)
