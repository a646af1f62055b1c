"""Memory of files in work: what one needed is there for the next, in a process of its own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

FAULTS = """
import resource, secrets
from bcn.iceberg.manifest import relocate_manifest
from bcn.iceberg.relocate import Move, Moves
from tests.support.manifest_files import ROOT, entry, manifest

paths = [f"{ROOT}/data/{secrets.token_hex(400)}.parquet" for _ in range(5_000)]
data = manifest([entry(path) for path in paths], sync_interval=64_000)
moves = Moves([Move(ROOT, "s3://other/place")])
counts = []
for _ in range(5):
    relocate_manifest(data, moves, {})
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(counts[-1] - counts[-2])
"""


def test_a_second_manifest_needs_no_new_pages():
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 200  # it has 4 MB, and takes several times as much
