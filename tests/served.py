"""`snellen serve` and `snellen view` as users start them: processes of their own, driven from the outside over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from http_browser import Browser

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+\S*")


class ServedProcess:
    """A process that serves on loopback."""

    def __init__(self, process: subprocess.Popen[str], address: str, log: Path) -> None:
        self.process, self.address, self._log = process, address, log
        self._browsers: list[Browser] = []

    def visitor(self, **headers: str) -> Browser:
        """Somebody without an account."""
        self._browsers.append(Browser(self.url, headers))
        return self._browsers[-1]

    def close(self) -> None:
        for browser in self._browsers:
            browser.http.close()

    @property
    def url(self) -> str:
        """The address without a query."""
        return self.address.partition("?")[0].rstrip("/")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self._log.read_text("utf-8", "replace")

    @property
    def memory(self) -> int:
        """Bytes of memory in use, as Linux counts them."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10  # type: ignore[index]

    def has_loaded(self, library: str) -> bool:
        """Whether a compiled library is in its memory."""
        return library in Path(f"/proc/{self.process.pid}/maps").read_text()


@contextmanager
def served(*words: str | Path, folder: Path, **environment: str) -> Iterator[ServedProcess]:
    """`snellen WORDS --port 0` until the block ends; `folder` takes its log and is where it runs."""
    command = [sys.executable, "-m", "snellen", *map(str, words), "--port", "0"]
    log = folder / "stderr.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=folder,
            env={**os.environ, "COLUMNS": "200", **environment},
        )
    assert process.stdout is not None
    server = None
    try:
        address = None
        while address is None:
            line = process.stdout.readline()
            assert line, f"it did not start: {log.read_text()}"
            if "/invitation/" not in line:
                address = ADDRESS.search(line)
        server = ServedProcess(process, address[0], log)
        yield server
    finally:
        if server is not None:
            server.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
