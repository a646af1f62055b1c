"""The one exception tree: class says what to do, message what happened, hint what to try.

Every class has an exit code; `cli/main.py` turns it into the process's own.
"""

from __future__ import annotations


class BcnError(Exception):
    """Whatever bcn stops for and can explain."""

    exit_code = 1
    hint = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Executors send errors to the driver by pickle; keep the hint."""
        return (_rebuild, (type(self), str(self), self.hint))


def _rebuild(kind: type[BcnError], message: str, hint: str) -> BcnError:
    return kind(message, hint=hint)


class ServerError(BcnError):
    """A server for trying things out could not be fetched or started."""

    hint = "see docs/stacks.md for what each server needs"


class StackBusyError(ServerError):
    """Another process starts or ends the servers of the same folder."""

    hint = "wait until it is done, or give another --folder"


# 2: usage or settings


class UsageError(BcnError):
    """The command line or the settings ask for something that cannot be."""

    exit_code = 2


class SettingsError(UsageError):
    """A settings file, variable or section is wrong."""

    hint = "see docs/settings.md, or run 'bcn COMMAND --help'"


class UnknownCatalogError(UsageError):
    """No `[catalogs.NAME]` section has this name."""

    hint = "add a [catalogs.NAME] section to bcn.toml, or correct --catalog"


class UnknownPitError(UsageError):
    """No point in time, or more than one, matches what was asked for."""

    hint = "run 'bcn list' to see the points in time of this repository"


class BadNameError(UsageError):
    """A name of a catalog, database or table that cannot exist."""

    hint = "names may not be empty, '.', '..', or hold '/' or NUL"


# 3: partly done


class IncompleteBackupError(BcnError):
    """The backup was published, but some tables kept their last good version or have none."""

    exit_code = 3
    hint = "run 'bcn backup' again; the tables that failed are listed in the report"


# 10 to 13: the repository


class NoRepositoryError(BcnError):
    """Nothing at this location says that it is a repository."""

    exit_code = 10
    hint = "check --repo, or make one with 'bcn init' or a first 'bcn backup'"


class RepositoryLockedError(BcnError):
    """Another process holds the repository's lease."""

    exit_code = 11
    hint = "wait with --lock-wait, or run 'bcn unlock' if that process is gone"


class LeaseLostError(RepositoryLockedError):
    """This process held the lease and another one took it over: nothing was published."""

    hint = "another bcn took over while this one stood still; run the command again"


class DamagedRepositoryError(BcnError):
    """Something stored is missing, cut short or not what its digest says."""

    exit_code = 13
    hint = "run 'bcn verify' to see what is hurt; other points in time may be whole"


class NewerVersionError(DamagedRepositoryError):
    """A document or feature of a later bcn."""

    hint = "upgrade bcn: this repository was written by a newer version"


class UnknownRootError(DamagedRepositoryError):
    """A location lies under none of the roots that its table's entry names."""


class UnknownLengthError(DamagedRepositoryError):
    """A manifest list names a manifest that the inventory does not."""


# 14: catalogs


class CatalogError(BcnError):
    """A catalog cannot be reached or does not do what was asked."""

    exit_code = 14


class NoSuchNamespaceError(CatalogError):
    """The catalog, or the point in time, has no such database."""

    hint = "check the spelling of --database"


class NoSuchTableError(CatalogError):
    """The catalog, or the point in time, has no such table."""

    hint = "check the spelling of --table"


class UnsupportedCatalogError(CatalogError):
    """This catalog cannot hold or do what the operation needs."""


class TargetChangedError(CatalogError):
    """A table changed while another one was on its way to its place; it was left as it is."""

    hint = "stop its writers and run the same command again: finished files are not copied twice"


# 15: storage


class StorageError(BcnError):
    """Bytes could not be read or written."""

    exit_code = 15


class StorageFullError(StorageError):
    """No space left where bytes had to go."""

    hint = "free some space and run the same command again: finished files are not copied twice"


class ReadOnlyStorageError(StorageError):
    """The place where bytes had to go does not take any."""

    hint = "check the permissions and the mount of that place"


class MissingKeyError(StorageError):
    """There is nothing under this key."""


class KeyExistsError(StorageError):
    """The key is taken; what is stored is never overwritten."""


class UnsupportedSchemeError(StorageError):
    """No storage of bcn speaks this scheme."""

    hint = "locations may be local paths, file: URIs, s3:// (s3a, s3n), gs://, abfss:// (wasb, az)"


# 16: refused for safety


class RefusedError(BcnError):
    """Doing this could cost somebody a table."""

    exit_code = 16


class ScopeMismatchError(RefusedError):
    """The repository is locked to another granularity or scope."""

    hint = "leave the names out to use the repository's own scope, or use another repository"


class MassDeletionError(RefusedError):
    """All tables, or over half of ten or more, seem to be gone from the source."""

    hint = (
        "check the catalog, mounts and credentials; if they really are gone, add --accept-deletions"
    )


class OverlapError(RefusedError):
    """One place lies inside another and would be cleaned up or overwritten with it."""

    hint = "keep the repository, the warehouse and restore targets apart"


class TargetExistsError(RefusedError):
    """A table of that name, or files at that location, are there already."""

    hint = (
        "restore under another name with --target-table, or to another --target-location;"
        " --overwrite puts a table in the place of another"
    )


class UnmappedRootError(RefusedError):
    """A table has files under a root that the target cannot take."""

    hint = "say where they go with --map-root OLD=NEW"


class UnsupportedTableError(RefusedError):
    """A table that bcn cannot keep exactly: encrypted, or of a format version it does not know."""


# 17: the source


class DamagedSourceError(BcnError):
    """A table names a file that is missing or cannot be read as what it should be."""

    exit_code = 17
    hint = "repair the table, expire the snapshots that need the file, or add --skip-damaged"


class MissingSourceFileError(DamagedSourceError):
    """A live file of the table is not there."""


class MalformedFileError(DamagedSourceError):
    """Bytes that are not what the format says: Avro, JSON, Puffin or Parquet."""


# signals


class Interrupted(BaseException):
    """A signal asked the process to stop; work is cleaned up on the way out.

    It is no error, and `except Exception` must not stop it.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code
