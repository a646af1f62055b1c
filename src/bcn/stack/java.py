"""The Java that servers run on."""

from __future__ import annotations

import shutil
import subprocess

from bcn.errors import ServerError

_OLDEST = 17
_HINT = f"install a JDK, {_OLDEST} or newer, and put its bin folder on PATH"


def check_java(*, with_compiler: bool) -> None:
    """Raises ServerError if there is no Java that runs a server, before anything is started."""
    program = shutil.which("java")
    if program is None:
        raise ServerError("there is no 'java' on this machine", hint=_HINT)
    listed = subprocess.run(  # noqa: S603  the java that will run the server
        [program, "--list-modules"], capture_output=True, text=True, check=False
    ).stdout
    modules = dict(line.strip().partition("@")[::2] for line in listed.splitlines())
    major = modules.get("java.base", "").partition(".")[0]
    if not major.isdigit() or int(major) < _OLDEST:
        raise ServerError(f"{program} is too old: Java {major or 'of an unknown age'}", hint=_HINT)
    if with_compiler and "jdk.compiler" not in modules:
        raise ServerError(f"{program} is a JRE: the Hive Metastore needs a whole JDK", hint=_HINT)
