"""Starting a stack, or what is missing of it; leaving alone what runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bcn.catalog.sql_statements import CREATE
from bcn.errors import RefusedError, ServerError, UsageError
from bcn.model import Json
from bcn.stack.fetch import servers_home
from bcn.stack.hive import start_hive
from bcn.stack.java import check_java
from bcn.stack.kit import (
    BUCKETS,
    CONFIG_FILE,
    REPOSITORY,
    S3_PORT,
    SECOND_CATALOG,
    SECOND_DATABASE,
    SECOND_FOLDER,
    VARIABLES_FILE,
    WAREHOUSE_BUCKET,
    Ports,
    StackKind,
    catalog_uri,
    render_config,
    render_variables,
    s3_properties,
)
from bcn.stack.process import Server, accepts, free_port, heard, is_free, wait_until
from bcn.stack.rest import start_rest
from bcn.stack.state import (
    LOCK_FILE,
    Stack,
    load_stack,
    locked,
    save_stack,
    unwritable,
    write_private,
)
from bcn.stack.store import choose_store, make_buckets, start_store
from bcn.telemetry.progress import Progress

TITLES = {
    "minio": "MinIO",
    "seaweed": "SeaweedFS",
    "hive": "Hive Metastore",
    "rest": "REST catalog",
}
_FETCHED = {
    StackKind.HIVE: ("hive-s3", "the jars by which the Hive Metastore speaks S3, 21 MB"),
    StackKind.REST: ("rest", "the jars of Iceberg's REST catalog, 145 MB"),
}


@dataclass(frozen=True, slots=True)
class UpServer:
    """A server of the stack, and whether this run started it."""

    server: Server
    uri: str
    is_new: bool

    @property
    def title(self) -> str:
        """What people call it."""
        return TITLES[self.server.name]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "name": self.server.name,
            "status": "started" if self.is_new else "running",
            "uri": self.uri,
            "port": self.server.port,
            "pid": self.server.pid,
            "log": f"{self.server.folder}/{self.server.name}.log",
        }


@dataclass(frozen=True, slots=True)
class UpReport:
    """A stack that runs."""

    folder: Path
    kind: StackKind
    servers: tuple[UpServer, ...]
    warnings: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        """The settings that open it."""
        return self.folder / CONFIG_FILE

    @property
    def variables(self) -> Path:
        """The same for a shell."""
        return self.folder / VARIABLES_FILE

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "folder": str(self.folder),
            "kind": self.kind.value,
            "servers": [server.as_json() for server in self.servers],
            "config": str(self.config),
            "env": str(self.variables),
            "catalogs": [self.kind.catalog, SECOND_CATALOG],
            "repositories": [REPOSITORY],
            "buckets": list(BUCKETS),
            "warnings": list(self.warnings),
        }


@dataclass
class _Run:
    """One `up`: the stack as it is by now, and what this run started."""

    folder: Path
    stack: Stack
    progress: Progress
    new: list[Server] = field(default_factory=list)

    def note(self, server: Server) -> None:
        """Of a server that has just been started, before it answers."""
        self.new.append(server)
        self.stack = self.stack.with_server(server)
        save_stack(self.folder, self.stack)

    def ensure(self, name: str, port: int, start: Callable[[], Server]) -> Server:
        """The server of that name: the one that runs and answers, else a new one."""
        running = self.stack.find(name)
        if running is not None:
            if wait_until(lambda: not running.is_alive() or accepts(port)) and running.is_alive():
                return running
            running.stop()
        if not is_free(port):
            raise ServerError(
                f"{TITLES[name]} needs port {port}, which another process has",
                hint="end that process, or run 'bcn down' and give 'bcn up' a --port-base",
            )
        self.progress.phase(f"{TITLES[name]} starts")
        return start()


def run_up(
    folder: Path, kind: StackKind | None, port_base: int | None, progress: Progress
) -> UpReport:
    """Bring the folder's stack up. What was started is ended again if that fails or is stopped."""
    folder = _make_folder(folder)
    with locked(folder):
        before = load_stack(folder)
        stack = _plan(folder, before, kind, port_base, progress)
        run = _Run(folder, stack, progress)
        with _all_or_nothing(run), heard(run.note):
            servers = (_start_store(run), _start_catalog(run))
            warnings = write_files(folder, run.stack, before)
        uris = (stack.ports.endpoint, catalog_uri(stack.kind, stack.ports.catalog))
        return UpReport(
            folder,
            stack.kind,
            tuple(UpServer(s, u, s in run.new) for s, u in zip(servers, uris, strict=True)),
            warnings,
        )


def _make_folder(folder: Path) -> Path:
    """Made if need be; what is in it must be ours. Raises RefusedError and others."""
    folder = folder.absolute()
    if not str(folder).isprintable() or "?" in str(folder):  # part of an address of SQLite
        raise UsageError(f"a stack cannot be in {str(folder)!r}", hint="give another --folder")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE)
    except OSError as error:
        raise unwritable(folder, error) from None
    if found and load_stack(folder) is None:
        raise RefusedError(
            f"{folder} holds other things: {', '.join(found[:3])}",
            hint="a stack needs a folder of its own: give another --folder",
        )
    return folder


@contextmanager
def _all_or_nothing(run: _Run) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for server in reversed(run.new):
            server.stop()
        raise


# planning


def _plan(
    folder: Path,
    before: Stack | None,
    kind: StackKind | None,
    port_base: int | None,
    progress: Progress,
) -> Stack:
    """What the stack is to be. Raises UsageError, ServerError."""
    if before is None:
        kind = kind or StackKind.HIVE
        _check_needs(kind)
        ports = choose_ports(Ports(S3_PORT, kind.port), port_base)
        stack = Stack(kind, choose_store(progress), ports)
        save_stack(folder, stack)
        return stack
    if kind not in {None, before.kind}:
        raise UsageError(
            f"{folder} has a stack with a {TITLES[before.kind.value]}",
            hint="give another --folder, or run 'bcn down --delete-data' first",
        )
    if any(server.is_alive() for server in before.servers):
        if port_base is not None and _based(port_base) != before.ports:
            ports = before.ports
            raise UsageError(
                f"the stack in {folder} runs on ports {ports.s3} and {ports.catalog}",
                hint="run 'bcn down' first, its data stay",
            )
        return before
    _check_needs(before.kind)
    return replace(before, ports=choose_ports(before.ports, port_base), servers=())


def _check_needs(kind: StackKind) -> None:
    check_java(with_compiler=kind is StackKind.HIVE)


def _based(base: int) -> Ports:
    return Ports(base, base + 1)


def choose_ports(usual: Ports, base: int | None) -> Ports:
    """Those asked for, which must be free; else the usual ones, and free ones for those taken."""
    if base is None:
        return Ports(
            *(port if is_free(port) else free_port() for port in (usual.s3, usual.catalog))
        )
    ports = _based(base)
    for port in (ports.s3, ports.catalog):
        if not is_free(port):
            raise ServerError(
                f"port {port} is taken", hint="give another --port-base, or none for free ports"
            )
    return ports


# doing


def _start_store(run: _Run) -> Server:
    name, ports = run.stack.store, run.stack.ports
    server = run.ensure(
        name, ports.s3, lambda: start_store(name, run.folder / name, ports.s3, run.progress)
    )
    run.progress.phase("buckets are made")
    make_buckets(BUCKETS, s3_properties(ports))
    return server


def _start_catalog(run: _Run) -> Server:
    kind, ports = run.stack.kind, run.stack.ports
    home, what = _FETCHED[kind]
    if not (servers_home() / home).is_dir():
        run.progress.message(f"fetching {what}, once")
    folder = run.folder / kind.value
    warehouse = f"s3://{WAREHOUSE_BUCKET}/"  # Hadoop knows no place without a path
    store = s3_properties(ports)
    if kind is StackKind.HIVE:
        return run.ensure(
            kind.value, ports.catalog, lambda: start_hive(folder, warehouse, store, ports.catalog)
        )
    own = {
        **store,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": store["s3.region"],
    }
    return run.ensure(
        kind.value, ports.catalog, lambda: start_rest(folder, warehouse, own, ports.catalog)
    )


def write_files(folder: Path, stack: Stack, before: Stack | None) -> tuple[str, ...]:
    """The settings and the variables. What somebody has changed since stays; gives warnings."""
    _make_second_catalog(folder / SECOND_FOLDER)
    write_private(folder / VARIABLES_FILE, render_variables(stack.kind, stack.ports))
    path, text = folder / CONFIG_FILE, render_config(stack.kind, stack.ports, str(folder))
    earlier = render_config(stack.kind, (before or stack).ports, str(folder))
    found = path.read_text(encoding="utf-8", errors="replace") if path.exists() else earlier
    if found == earlier:
        write_private(path, text)
        return ()
    if before is None or before.ports == stack.ports:
        return ()
    return (f"{path} was changed by hand: set its addresses to those of {VARIABLES_FILE}",)


def _make_second_catalog(folder: Path) -> None:
    """An empty one, so that it can be listed before anything was restored into it."""
    folder.mkdir(exist_ok=True)
    with closing(sqlite3.connect(folder / SECOND_DATABASE)) as connection, connection:
        for statement in CREATE:
            connection.execute(statement.text)
