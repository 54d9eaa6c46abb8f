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


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of an empty database."""
    # The server refuses to run as root; a path to its socket must be short.
    user = "nobody" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if user:
        shutil.chown(folder, user)
    cluster = folder / "cluster"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def do(*command: str | Path) -> None:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            user=user,
            cwd=folder,
            capture_output=True,
            env={"LC_ALL": "C"},
        )

    try:
        do(
            PROGRAMS / "initdb",
            "-D",
            cluster,
            "-U",
            "snellen",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        )
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        do(PROGRAMS / "pg_ctl", "-D", cluster, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://snellen@127.0.0.1:{port}/postgres"
        finally:
            do(PROGRAMS / "pg_ctl", "-D", cluster, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
