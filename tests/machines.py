"""Machines on this one: each has an address, processes, a name, `/mnt` and `/dev/shm` of its own.

    with machines(2) as (one, other):
        one.run("curl", f"http://{other.address}:8000")
        other.unplug()  # packets to and from it are lost, and nobody is told

They are namespaces of Linux (network, process, mount, name) joined by a bridge, which stands in one too, so that
nothing of this machine's own network changes. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

PROGRAMS = ("ip", "unshare", "nsenter", "mount")
ADDRESSES = {f"machine{number}": f"10.99.0.{number}" for number in range(1, 10)}
REACHED = ("127.0.0.1", "localhost", "::1", *ADDRESSES, *ADDRESSES.values())
NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")
# The first process of a machine waits for its children, so that none that ended stays behind, and ends with this one.
FIRST = """
hostname "$1"
mount --bind "$2" /mnt
mount --bind "$2/hosts" /etc/hosts
mount -t tmpfs shm /dev/shm
ip link set lo up
echo up
cat
"""


@cache
def why_not() -> str:
    """Why there can be no machines here; empty where there can."""
    if os.name != "posix" or os.geteuid():
        return "needs root, for network namespaces"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"needs {', '.join(missing)}"
    refused = subprocess.run(
        ["unshare", *NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False
    )
    return refused.stderr.strip()


class Machine:
    """One of them, as whoever stands beside it sees it."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name, self.address, self.folder = f"machine{number}", f"10.99.0.{number}", folder
        """`folder` is its `/mnt`."""
        others = "".join(f"{address} {name}\n" for name, address in ADDRESSES.items())
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{others}")
        command = [
            "unshare",
            *NAMESPACES,
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-ec",
            FIRST,
            "sh",
        ]
        self._first = subprocess.Popen(
            [*command, self.name, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._first.stdout and self._first.stdout.readline() == b"up\n"

    def command(self, *words: str | Path) -> list[str]:
        """What runs `words` on it, in the working folder of whoever starts that."""
        pid = self._first.pid
        spaces = (*NAMESPACES[:-1], f"--pid=/proc/{pid}/ns/pid_for_children")
        # Tests have a proxy that lets nothing through (conftest.py); these machines are reached without it.
        direct = ("env", f"no_proxy={','.join(REACHED)}")
        enter = ("nsenter", f"--target={pid}", "--wd=.", *spaces)
        return [*enter, *direct, *(str(word) for word in words)]

    def run(self, *words: str | Path, **how: Any) -> str:
        """What a command says that runs on it."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, **how
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def join(self, switch: Machine) -> None:
        """Connect it by a cable."""
        self._switch = switch
        cable = ("type", "veth", "peer", "name", "eth0", "netns", str(self._first.pid))
        # From outside its processes, where the other's number means something.
        switch_net = ("nsenter", f"--target={switch._first.pid}", "--net")
        subprocess.run([*switch_net, "ip", "link", "add", self.name, *cable], check=True)
        switch.run("ip", "link", "set", self.name, "master", "bridge")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.plug()

    def plug(self) -> None:
        self._switch.run("ip", "link", "set", self.name, "up")

    def unplug(self) -> None:
        self._switch.run("ip", "link", "set", self.name, "down")

    def end(self) -> None:
        """End all its processes at once."""
        self._first.kill()
        self._first.communicate()


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """So many machines, each reached by the others at its address, until the block ends."""
    with ExitStack() as ending:

        def machine(number: int) -> Machine:
            folder = ending.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            made = Machine(number, Path(folder))
            ending.callback(made.end)
            return made

        switch = machine(0)
        switch.run("ip", "link", "add", "bridge", "type", "bridge")
        switch.run("ip", "link", "set", "bridge", "up")
        made = [machine(number) for number in range(1, count + 1)]
        for one in made:
            one.join(switch)
        yield made
