"""The settings in force and where each comes from, secrets hidden."""

from __future__ import annotations

from dataclasses import dataclass

from bcn.config.secrets import redact
from bcn.config.settings import Settings, Source
from bcn.model import Json

_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting that may be shown."""

    section: str
    name: str
    key: str
    value: str
    source: str

    @property
    def title(self) -> str:
        """The section as a file spells it."""
        return f"[{self.section}.{self.name}]" if self.name else f"[{self.section}]"

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "section": self.section,
            "name": self.name,
            "key": self.key,
            "value": self.value,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class ShowReport:
    """All settings, and catalogs of other programs that bcn cannot use, with the reason."""

    settings: tuple[ShownSetting, ...]
    unusable: tuple[tuple[str, str], ...]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "settings": [setting.as_json() for setting in self.settings],
            "unusable": [{"name": name, "reason": reason} for name, reason in self.unusable],
        }


def show_settings(settings: Settings) -> ShowReport:
    """Everything that was written, then the defaults of what was not."""
    defaults = [
        Source("spark", "", "master", "local[*]", _DEFAULT),
        Source("lease", "", "ttl-seconds", str(settings.lease.ttl_seconds), _DEFAULT),
    ]
    written = {(item.section, item.name, item.key) for item in settings.sources}
    every = [
        *settings.sources,
        *(item for item in defaults if (item.section, item.name, item.key) not in written),
    ]
    order = ("catalogs", "repositories", "spark", "lease")
    every.sort(key=lambda item: (order.index(item.section), item.name))
    shown = (
        ShownSetting(item.section, item.name, item.key, _value(settings, item), item.source)
        for item in every
    )
    return ShowReport(tuple(shown), tuple(settings.faults.items()))


def _value(settings: Settings, item: Source) -> str:
    """As it is used: relative paths have become absolute ones."""
    value = item.value
    if item.section == "catalogs" and item.name in settings.catalogs:
        value = settings.catalogs[item.name].properties.get(item.key, value)
    if item.section == "repositories" and item.key == "location":
        value = settings.repositories[item.name].location
    return redact({item.key: value})[item.key]
