"""How loops are compiled: by numba, once, and cached on disk for the processes after this one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Loop = TypeVar("_Loop", bound=Callable[..., Any])

# Arrays belong to the Python caller and no loop makes one, so references are not counted (`_nrt`):
# counting takes half the time. A numba without that option, or without a folder to cache in, still
# compiles.
_WAYS: tuple[dict[str, bool], ...] = (
    {"cache": True, "_nrt": False},
    {"cache": True},
    {"_nrt": False},
)
_njit: Any = njit  # its types leave options out


def kernel(function: _Loop) -> _Loop:
    """Compile a loop, cached in the first folder numba can write to: NUMBA_CACHE_DIR, beside the
    source, the user's cache.
    """
    for way in _WAYS:
        with contextlib.suppress(RuntimeError, KeyError):  # no folder, no such option
            return cast("_Loop", _njit(nogil=True, **way)(function))
    return cast("_Loop", _njit(nogil=True)(function))


def step(function: _Loop) -> _Loop:
    """A part of a loop, compiled into each loop that has it."""
    with contextlib.suppress(KeyError):
        return cast("_Loop", _njit(nogil=True, forceinline=True, _nrt=False)(function))
    return cast("_Loop", _njit(nogil=True, forceinline=True)(function))
