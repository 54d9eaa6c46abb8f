"""A real PostgreSQL on loopback in a folder of its own, as an unprivileged user, for as long as a block runs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
PROGRAMS = FOLDERS[0] if FOLDERS else Path(shutil.which("initdb") or "/nowhere/initdb").parent
IS_THERE = (PROGRAMS / "initdb").exists()


class Cluster:
    """A PostgreSQL that can be stopped and started again at the same port."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self._folder, self._user = folder, user
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"postgresql://snellen@127.0.0.1:{self._port}/postgres"
        roles = ("-U", "snellen", "-A", "trust", "-E", "UTF8")
        self._do("initdb", *roles, "--no-sync")

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c fsync=off"
        options += f" -c unix_socket_directories={self._folder}"
        self._do("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._do("pg_ctl", "-m", "immediate", "stop")

    def _do(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(PROGRAMS / program), "-D", str(self._folder / "cluster"), *words],
            check=True,
            user=self._user,
            cwd=self._folder,
            capture_output=True,
            env={"LC_ALL": "C"},
        )


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A PostgreSQL with an empty database."""
    # The server refuses to run as root; a path to its socket must be short.
    user = "nobody" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if user:
        shutil.chown(folder, user)
    try:
        cluster = Cluster(folder, user)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of an empty database."""
    with running_cluster() as cluster:
        yield cluster.url
