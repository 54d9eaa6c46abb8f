"""What `snellen serve` bears: many clients that each ask for a small write at once, over real HTTP on loopback.

    python bench/serve.py                         # SQLite, 200 clients, 20 seconds
    python bench/serve.py --database postgresql://snellen@127.0.0.1/snellen
    python bench/serve.py --kill                  # kill -9 in the middle, start again, and count

The server runs in a process of its own with one feature more, whose address writes a row as a vote would: with a
visitor, a CSRF token, and the limits (so high that they turn nobody away). Clients together ask `--rate` times
a second, or as fast as they are answered (`--rate 0`). Latencies are of requests that were answered with 201,
each after its commit, from the moment at which they were due.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """
features = ["bench"]
[limits]
"every request" = { per_visitor = "1000000/second", per_network = "1000000/second" }
"""


def serve(folder: Path, port: int, database: str) -> None:
    from fastapi import APIRouter

    from snellen.cli import main
    from snellen.registry import register
    from snellen.server.hosting.audit import note
    from snellen.server.hosting.callers import CallerDep, ServicesDep
    from snellen.server.hosting.features import Feature

    router = APIRouter()

    # Annotations of a function within a function are not found by their names.
    async def vote(services, caller):  # type: ignore[no-untyped-def]
        await services.database.write(lambda connection: note(connection, caller.actor, "voted", "left"))

    vote.__annotations__ = {"services": ServicesDep, "caller": CallerDep}
    router.post("/vote", status_code=201, include_in_schema=False)(vote)
    register("features", "bench", Feature("bench", "Bench", router, "snellen"))
    folder.mkdir(exist_ok=True)
    file = folder / "server.toml"
    file.write_text(CONFIG)
    elsewhere = ["--database", database] if database else []
    main(["serve", str(folder), "--port", str(port), "--config", str(file), *elsewhere])


def start(folder: Path, database: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, __file__, "--serve", str(folder), "--database", database]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    while True:
        line = process.stdout.readline()
        assert line, "the server did not start"
        if "listening" in line:
            return process, int(line.split()[0].rpartition(":")[2])


class Client:
    """One visitor on one connection, as thin as can be: the two processes share the cores."""

    async def begin(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        _, head, body = await self._ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n")
        cookie = head.partition(b"set-cookie: ")[2].partition(b";")[0]
        token = body.partition(b'name="csrf-token" content="')[2].partition(b'"')[0]
        self._vote = (
            b"POST /vote HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nCookie: %b\r\nX-CSRF-Token: %b\r\n\r\n"
            % (cookie, token)
        )

    async def _ask(self, request: bytes) -> tuple[int, bytes, bytes]:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head[9:12]), head, await self._reader.readexactly(size)

    async def vote_until(self, start: float, end: float, pause: float, latencies: list[float], odd: list[int]) -> None:
        """Vote every `pause` seconds from `start` on; a vote that has to wait for the one before it is late already."""
        due = start
        while due < end and time.perf_counter() < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            begun = due if pause else time.perf_counter()
            try:
                status, _, _ = await self._ask(self._vote)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if status == 201:
                latencies.append(time.perf_counter() - begun)
            else:
                odd.append(status)
            due += pause


async def measure(port: int, clients: int, seconds: float, rate: float) -> tuple[list[float], list[int]]:
    visitors = [Client() for _ in range(clients)]
    for visitor in visitors:
        await visitor.begin(port)
    latencies: list[float] = []
    odd: list[int] = []
    start = time.perf_counter()
    pause = clients / rate if rate else 0.0
    await asyncio.gather(
        *(
            visitor.vote_until(start + pause * number / clients, start + seconds, pause, latencies, odd)
            for number, visitor in enumerate(visitors)
        )
    )
    return latencies, odd


def count_votes(folder: Path, database: str) -> int:
    from sqlalchemy import func, select

    from snellen.server.hosting.configuration import Configuration
    from snellen.server.hosting.services import open_database
    from snellen.server.hosting.tables import audit

    opened = open_database(Configuration(folder=folder, database=database))
    chosen = select(func.count()).select_from(audit).where(audit.c.action == "voted")
    found = opened.read_now(lambda connection: connection.execute(chosen).scalar_one())
    opened.close()
    return found


def main_of_bench() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--database", default="")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve, 0, asked.database)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process, port = start(folder, asked.database)
        before = count_votes(folder, asked.database)
        if asked.kill:
            loop_time = asked.seconds / 2
            killer = subprocess.Popen(["sleep", str(loop_time)])

            async def killed() -> tuple[list[float], list[int]]:
                work = asyncio.create_task(measure(port, asked.clients, asked.seconds, asked.rate))
                await asyncio.to_thread(killer.wait)
                os.kill(process.pid, signal.SIGKILL)
                return await work

            latencies, odd = asyncio.run(killed())
        else:
            latencies, odd = asyncio.run(measure(port, asked.clients, asked.seconds, asked.rate))
            process.terminate()
        process.wait()
        kept = count_votes(folder, asked.database) - before
    ordered = sorted(latencies)
    lasted = asked.seconds / 2 if asked.kill else asked.seconds
    print(
        json.dumps(
            {
                "clients": asked.clients,
                "acknowledged": len(latencies),
                "kept": kept,
                "others": len(odd),
                "server_cpu_ms_each": round(
                    resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime * 1000 / max(len(latencies), 1), 2
                ),
                "per_second": round(len(latencies) / lasted),
                "median_ms": round(statistics.median(ordered) * 1000),
                "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000),
                "largest_ms": round(ordered[-1] * 1000),
            }
        )
    )
    assert kept >= len(latencies), "an acknowledged write is lost"


if __name__ == "__main__":
    main_of_bench()
