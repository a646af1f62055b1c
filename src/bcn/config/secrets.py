"""Properties and addresses in a form that may be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"

_SECRET_KEY = re.compile(
    r"key|secret|token|passw|pwd|credential|signature|(^|[._-])sas([._-]|$)|connection-string"
    r"|authorization|\Aheader\.|\Augi\Z",
    re.IGNORECASE,
)
# Greedy up to the last @: a password may hold an @, or even a slash, that nobody escaped.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s@]*:[^\s]*@")
_SECRET_OPTION = re.compile(
    r"([?&;][^=&;\s]*(?:key|secret|token|passw|pwd|credential|sig)[^=&;\s]*=)[^&;\s]*", re.I
)


def is_secret(key: str) -> bool:
    """Whether a property of that name may be a secret: rather one too many than one too few."""
    return _SECRET_KEY.search(key) is not None


def redact_text(text: str) -> str:
    """A text without the passwords of the addresses in it, and without options that look secret."""
    return _SECRET_OPTION.sub(rf"\g<1>{HIDDEN}", _ADDRESS.sub(rf"\g<1>{HIDDEN}@", text))


def redact(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties with every value that may be a secret hidden."""
    return {
        key: HIDDEN if is_secret(key) else redact_text(value) for key, value in properties.items()
    }
