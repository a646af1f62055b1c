"""A PostgreSQL of the machine, as a process of its own user: it refuses to run as root."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import URL

from bcn.catalog.protocol import CatalogSettings
from bcn.errors import ServerError
from bcn.stack.process import Server, free_port, start_server

USER, PASSWORD = "bcn", "postgres:tests/secret"  # what an address has to escape


@dataclass(frozen=True)
class PostgresServer:
    """A server with as many databases as tests ask for."""

    server: Server

    def make_database(self) -> str:
        """A new, empty database."""
        name = f"catalog_{secrets.token_hex(6)}"
        with self.connect("postgres") as connection:
            connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
        return name

    def connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        """Another look at what was stored."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.server.port,
            user=USER,
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        )

    def uri(self, database: str, scheme: str = "postgresql", **changes: object) -> str:
        parts = {
            "username": USER,
            "password": PASSWORD,
            "host": "127.0.0.1",
            "port": self.server.port,
            **changes,
        }
        url = URL.create(scheme, database=database, **parts)  # type: ignore[arg-type]
        return url.render_as_string(hide_password=False)

    def settings(self, name: str, database: str, warehouse: Path | str) -> CatalogSettings:
        properties = {"uri": self.uri(database), "warehouse": str(warehouse)}
        return CatalogSettings(name, "sql", properties)

    def stop(self) -> None:
        """A fast end: connections that somebody keeps are cut."""
        os.kill(self.server.pid, signal.SIGINT)
        self.server.stop()


def fetch_postgres() -> Path:
    """The folder of its programs; Debian's package is installed if there are none."""
    found = _find_programs()
    if found is not None:
        return found
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ServerError("there is no PostgreSQL on this machine: install its server package")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "postgresql"]
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    found = _find_programs()
    if done.returncode or found is None:
        last = " / ".join((done.stdout + done.stderr).splitlines()[-3:])
        raise ServerError(f"cannot install PostgreSQL: {last}")
    return found


def _find_programs() -> Path | None:
    """Debian keeps them in a folder of their version, out of the path."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wanted = ("initdb", "postgres")
    return next((f for f in folders if all((f / name).is_file() for name in wanted)), None)


def start_postgres(folder: Path) -> PostgresServer:
    """A server on a loopback port, nothing flushed: its data are gone with the folder."""
    programs, port = fetch_postgres(), free_port()
    data, password = folder / "data", folder / "password"
    password.write_text(PASSWORD)
    as_user = _as_another_user(folder)
    made = subprocess.run(
        [
            *as_user,
            *(str(programs / "initdb"), "-D", str(data), "-U", USER, "--pwfile", str(password)),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    if made.returncode:
        raise ServerError(f"initdb failed: {' / '.join(made.stderr.splitlines()[-3:])}")
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(folder),
        "fsync": "off",
        "max_connections": "40",
    }
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    command = [*as_user, str(programs / "postgres"), "-D", str(data), "-p", str(port), *options]
    socket = folder / f".s.PGSQL.{port}"
    server = start_server(
        "postgres", command, port, folder, is_ready=lambda: _answers(port, socket)
    )
    return PostgresServer(server)


def _as_another_user(folder: Path) -> list[str]:
    """Words before a command; setpriv becomes it, so that the process id stays."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    for path in (folder, *folder.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _answers(port: int, socket: Path) -> bool:
    """Ready, not just listening: it says no to everybody while it starts."""
    if not socket.exists():
        return False
    try:
        psycopg.connect(
            host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres"
        ).close()
    except psycopg.OperationalError:
        return False
    return True
