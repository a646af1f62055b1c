"""Loops are compiled whatever numba there is, and wherever it may write."""

from __future__ import annotations

from typing import Any

import pytest

from bcn import compiled


def _double() -> Any:
    space: dict[str, Any] = {}
    exec("def double(x):\n    return 2 * x", space)  # no file, so no place to cache
    return space["double"]


def test_a_loop_without_a_folder_for_its_cache_is_compiled_all_the_same() -> None:
    assert compiled.kernel(_double())(4) == 8


def test_a_numba_without_our_options_compiles_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compiled._njit

    def strict(**options: Any) -> Any:
        if "_nrt" in options:
            raise KeyError("_nrt")
        if "cache" in options:
            raise RuntimeError("no folder")
        return real(**options)

    monkeypatch.setattr(compiled, "_njit", strict)
    assert compiled.kernel(_double())(4) == 8
    assert compiled.step(_double())(4) == 8
