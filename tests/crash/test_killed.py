"""Killed at half its bytes, by SIGKILL: the same command moves at most 60 % of them again."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.command import (
    Desk,
    answer_of,
    kill_session,
    started,
    stored_bytes,
    wait_for_end,
    wait_until,
)
from tests.support.small import InProcess

pytestmark = pytest.mark.spark

FILES, FILE_BYTES = 60, 2 << 20
TOTAL = FILES * FILE_BYTES


def test_a_backup_killed_at_half_its_bytes_moves_the_rest_and_no_more(desk: Desk) -> None:
    table = desk.add_table("large", snapshots=2, files=FILES // 2, file_bytes=FILE_BYTES)
    data = desk.location / "data"
    with started([desk.start("backup", "--limit-rate", "40M")]) as (process,):
        wait_until(lambda: stored_bytes(data) > TOTAL // 2, process)
        process.kill()
        assert answer_of(process).code == -9
        assert wait_for_end(process.pid) == {}, "Spark ends when its driver is gone"
    assert len(desk.pits()) == 1
    again = desk.run("backup")
    assert (again.code, again.error) == (0, None)
    assert again.report["bytes_copied"] <= 0.6 * TOTAL
    assert again.report["bytes_adopted"] >= 0.4 * TOTAL
    assert again.report["bytes_copied"] + again.report["bytes_adopted"] > TOTAL
    lease = json.loads((desk.location / "leases/00000003.json").read_text())
    assert lease["takes_over"] == 2, "the lease of a dead process is taken over, without a wait"
    assert lease["ttl_seconds"] == 60 > again.seconds
    restored = desk.product(InProcess()).restore(tables=("large",), target_catalog="dr").tables[0]
    target = desk.target / "shop/large"
    assert desk.differences(table, restored.metadata_location, target) == []


def test_a_restore_killed_at_half_its_bytes_moves_the_rest_and_no_more(desk: Desk) -> None:
    table = desk.add_table("large", snapshots=2, files=FILES // 2, file_bytes=FILE_BYTES)
    desk.product(InProcess()).backup()
    line = ("restore", "--table", "large", "--target-catalog", "dr")
    with started([desk.start(*line, "--limit-rate", "40M")]) as (process,):
        wait_until(lambda: stored_bytes(desk.target) > TOTAL // 2, process)
        kill_session(process.pid)
        assert answer_of(process).code == -9
    assert not (desk.root / "dr.db").exists(), "nothing is registered before it is whole"
    away = desk.root / "away"
    shutil.move(table.root, away)
    again = desk.run(*line)
    shutil.move(away, table.root)
    assert (again.code, again.error) == (0, None)
    assert again.report["bytes_copied"] <= 0.6 * TOTAL
    assert again.report["bytes_adopted"] >= 0.4 * TOTAL
    location = again.report["tables"][0]["metadata_location"]
    assert desk.differences(table, location, desk.target / "shop/large") == []
