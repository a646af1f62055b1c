"""Reading a table by pyiceberg from its metadata file alone."""

from __future__ import annotations

from typing import Any

from bcn.errors import CatalogError


class StaticReader:
    """A table of a metadata file, read by pyiceberg. Whatever fails is a CatalogError."""

    def __init__(self, metadata_location: str) -> None:
        from pyiceberg.table import StaticTable  # noqa: PLC0415  costs a second: only when tables are read

        try:
            self._table: Any = StaticTable.from_metadata(metadata_location)
        except Exception as error:
            raise _reason(error) from error

    def count_rows(self, version: int | str) -> int:
        """Read all columns of all rows as of a snapshot id or a ref's name."""
        try:
            scan = self._table.scan(snapshot_id=version if isinstance(version, int) else None)
            if isinstance(version, str):
                scan = scan.use_ref(version)
            return sum(batch.num_rows for batch in scan.to_arrow_batch_reader())
        except Exception as error:
            raise _reason(error) from error


def _reason(error: Exception) -> CatalogError:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return CatalogError(f"{type(error).__name__}: {first}"[:400])
