"""What `snellen serve` bears: many people who vote in the arena at once, over real HTTP on loopback.

    python bench/serve.py                         # votes on battles that are there: SQLite, 200 clients, 20 seconds
    python bench/serve.py --work battle           # a question, both replies as a stream, and then the vote
    python bench/serve.py --database postgresql://snellen@127.0.0.1/snellen
    python bench/serve.py --kill                  # kill -9 in the middle, start again, and count
    python bench/serve.py --restart-postgres      # a PostgreSQL of its own stops at once in the middle, and starts again

The server runs in a process of its own with two scripted models, a visitor's cookie, a CSRF token, and the limits (so
high that they turn nobody away). Clients together vote `--rate` times a second, or as fast as they are answered
(`--rate 0`). Latencies are of votes that were answered with 200, each after its commit, from the moment at which they
were due; in `battle` of the whole of question, replies and vote. After the end the database is looked at: each vote
that was acknowledged must be there, and no battle may have two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from postgres import Cluster, running_cluster

Work = Literal["vote", "battle"]
CONFIG = """
features = ["arena", "bench"]
[limits]
"every request" = { per_visitor = "1000000/second", per_network = "1000000/second" }
"arena questions" = { per_visitor = "1000000/second", per_network = "1000000/second" }
"arena questions a day" = { per_visitor = "1000000/second", per_network = "1000000/second" }
"arena votes" = { per_visitor = "1000000/second", per_network = "1000000/second" }
[feature.arena]
models = [
  { name = "one", model = "bench:one", concurrency = 1000, waiting = 10000 },
  { name = "two", model = "bench:two", concurrency = 1000, waiting = 10000 },
]
examples = [EXAMPLES]
"""


# --- the server --------------------------------------------------------------------------------------------------


class Scripted:
    """A model that says three words at once."""

    kinds = frozenset({"generate"})
    concurrency = 1000

    def __init__(self, name: str) -> None:
        self.name = name

    def fingerprint(self) -> dict[str, str]:
        return {"scripted": self.name}

    async def ask(self, request: Any, images: Any) -> Any:
        from snellen.records import Response

        return Response(text=f"{self.name} is sure", finish="stop")

    async def close(self) -> None:
        pass


def serve(folder: Path, database: str) -> None:
    from fastapi import APIRouter

    from snellen.cli import main
    from snellen.registry import register
    from snellen_server.arena.battles import (
        BattleTurn,
        Contender,
        NewBattle,
        SideReply,
        create_battle,
        finish_turn,
    )
    from snellen_server.hosting import features
    from snellen_server.hosting.callers import CallerDep, ServicesDep
    from snellen_server.hosting.features import Feature

    router = APIRouter()
    turn = BattleTurn("What is it?", SideReply("one is sure"), SideReply("two is sure"))
    new = NewBattle(
        "anonymous", Contender("one", "1"), Contender("two", "2"), turn, (), "uniform", 1.0
    )

    async def prepare(count, services, caller):  # type: ignore[no-untyped-def]
        def make(connection: Any) -> list[tuple[str, str | None]]:
            names = [create_battle(connection, caller, new) for _ in range(count)]
            return [
                (name, finish_turn(connection, services.signer, name, [turn])) for name in names
            ]

        return await services.database.write(make)

    # Annotations of a function within a function are not found by their names.
    prepare.__annotations__ = {"count": int, "services": ServicesDep, "caller": CallerDep}
    router.post("/prepare", include_in_schema=False)(prepare)
    features.register("features", "bench", Feature("bench", "Bench", router, "snellen"))
    register("models", "bench", lambda spec: Scripted(spec.target))
    examples = folder / "examples"
    examples.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (64, 64), "red").save(examples / "red.png")
    file = folder / "server.toml"
    file.write_text(CONFIG.replace("EXAMPLES", json.dumps(str(examples))))
    elsewhere = ["--database", database] if database else []
    main(["serve", str(folder), "--port", "0", "--config", str(file), *elsewhere])


def start(folder: Path, database: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, __file__, "--serve", str(folder), "--database", database]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    while True:
        line = process.stdout.readline()
        assert line, "the server did not start"
        if "listening" in line:
            return process, int(line.split()[0].rpartition(":")[2])


# --- the clients -------------------------------------------------------------------------------------------------


class Client:
    """One visitor on one connection, as thin as can be: the two processes share the cores."""

    async def begin(self, port: int, battles: int) -> None:
        """Get a cookie, a token, the example's image, and so many battles to vote on."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._head = b"Host: localhost\r\n"
        _, head, body = await self._ask(b"GET", b"/arena", extra=b"Accept: text/html\r\n")
        cookie = head.partition(b"set-cookie: ")[2].partition(b";")[0]
        token = body.partition(b'name="csrf-token" content="')[2].partition(b'"')[0]
        self._picture = body.partition(b'data-image="')[2].partition(b'"')[0]
        self._head += b"Cookie: %b\r\nX-CSRF-Token: %b\r\nContent-Type: application/json\r\n" % (
            cookie,
            token,
        )
        self._ready: list[list[str]] = []
        if battles:
            _, _, body = await self._ask(b"POST", b"/prepare?count=%d" % battles)
            self._ready = json.loads(body)

    async def _ask(
        self, method: bytes, path: bytes, body: bytes = b"", extra: bytes = b""
    ) -> tuple[int, bytes, bytes]:
        self._writer.write(
            b"%b %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b"
            % (method, path, self._head, extra, len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        said = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        content = await self._reader.readexactly(int(said)) if said else await self._chunks()
        return int(head[9:12]), head, content

    async def _chunks(self) -> bytes:
        content = b""
        # A line that does not end is the end of the server.
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            content += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return content

    async def vote(self, work: Work) -> tuple[int, str]:
        """The status of one vote, and the battle."""
        if work == "vote":
            name, token = self._ready.pop()
        else:
            asked = b'{"question": "What is it?", "images": ["%b"]}' % self._picture
            status, _, body = await self._ask(b"POST", b"/api/v1/arena/battles", asked)
            if status != 200 or b"event: answered" not in body:
                return status if status != 200 else 0, ""
            name = body.partition(b'"id":"')[2].partition(b'"')[0].decode()
            token = body.partition(b'"token":"')[2].partition(b'"')[0].decode()
        cast = json.dumps({"token": token, "outcome": "left"}).encode()
        status, _, _ = await self._ask(b"POST", f"/api/v1/arena/battles/{name}/vote".encode(), cast)
        return status, name

    async def vote_until(
        self, start: float, end: float, pause: float, work: Work, result: Result
    ) -> None:
        """Vote every `pause` seconds from `start` on; a vote that has to wait for the one before it is late already."""
        due = start
        while due < end and time.perf_counter() < end and (self._ready or work == "battle"):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            begun = due if pause else time.perf_counter()
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                status, name = await self.vote(work)
                if status == 200:
                    result.latencies.append(time.perf_counter() - begun)
                    result.acknowledged.append(name)
                else:
                    result.others.append(status)
                due += pause
                continue
            return


class Result:
    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.acknowledged: list[str] = []
        self.others: list[int] = []
        self.before_restart: int | None = None
        """Votes acknowledged before the database came back, where it was stopped."""
        self.cpu = 0.0
        """Seconds that the server computed while people voted."""


def cpu_seconds(process: int) -> float:
    """What a process has computed so far, as Linux counts it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(process: int, port: int, asked: argparse.Namespace, result: Result) -> None:
    visitors = [Client() for _ in range(asked.clients)]
    each = (
        int((asked.rate or 1500) * asked.seconds / asked.clients * 1.2) + 2
        if asked.work == "vote"
        else 0
    )
    for visitor in visitors:
        await visitor.begin(port, each)
    begun, computed = time.perf_counter(), cpu_seconds(process)
    pause = asked.clients / asked.rate if asked.rate else 0.0
    await asyncio.gather(
        *(
            visitor.vote_until(
                begun + pause * number / asked.clients,
                begun + asked.seconds,
                pause,
                asked.work,
                result,
            )
            for number, visitor in enumerate(visitors)
        )
    )
    if not asked.kill:
        result.cpu = cpu_seconds(process) - computed


async def measure_and_kill(
    process: subprocess.Popen[str], port: int, asked: argparse.Namespace, result: Result
) -> None:
    """`kill -9` after half of the time, which begins with the first vote."""
    work = asyncio.create_task(measure(process.pid, port, asked, result))
    while not result.latencies:
        await asyncio.sleep(0.01)
    await asyncio.sleep(asked.seconds / 2)
    os.kill(process.pid, signal.SIGKILL)
    await work


async def measure_and_restart(
    cluster: Cluster, process: int, port: int, asked: argparse.Namespace, result: Result
) -> None:
    """Stop the database without warning after half of the time, and start it again a second later."""
    work = asyncio.create_task(measure(process, port, asked, result))
    while not result.latencies:
        await asyncio.sleep(0.01)
    await asyncio.sleep(asked.seconds / 2)
    await asyncio.to_thread(cluster.stop)
    await asyncio.sleep(1)
    await asyncio.to_thread(cluster.start)
    result.before_restart = len(result.acknowledged)
    await work


def stored_votes(folder: Path, database: str) -> list[str]:
    """The battle of every vote in the database, which is opened as at a start."""
    from sqlalchemy import select

    from snellen_server.arena.battles import arena_vote
    from snellen_server.hosting.configuration import Configuration
    from snellen_server.hosting.services import open_database

    opened = open_database(Configuration(folder=folder, database=database))
    found = opened.read_now(
        lambda connection: connection.execute(select(arena_vote.c.battle_id)).scalars().all()
    )
    opened.close()
    return list(found)


def main_of_bench() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", choices=["vote", "battle"], default="vote")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--database", default="")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--restart-postgres", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve, asked.database)
        return
    result = Result()
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        cluster = None
        if asked.restart_postgres:
            cluster = opened.enter_context(running_cluster())
            asked.database = cluster.url
        process, port = start(folder, asked.database)
        before = set(stored_votes(folder, asked.database))
        time.sleep(1)  # until the models and the example are there
        if cluster is not None:
            asyncio.run(measure_and_restart(cluster, process.pid, port, asked, result))
            process.terminate()
        elif asked.kill:
            asyncio.run(measure_and_kill(process, port, asked, result))
        else:
            asyncio.run(measure(process.pid, port, asked, result))
            process.terminate()
        process.wait()
        stored = [name for name in stored_votes(folder, asked.database) if name not in before]
    lost = set(result.acknowledged) - set(stored)
    ordered = sorted(result.latencies)
    lasted = asked.seconds / 2 if asked.kill else asked.seconds
    print(
        json.dumps(
            {
                "work": asked.work,
                "clients": asked.clients,
                "acknowledged": len(result.acknowledged),
                "acknowledged_before_restart": result.before_restart,
                "stored": len(stored),
                "lost": len(lost),
                "doubled": len(stored) - len(set(stored)),
                "others": len(result.others),
                "server_cpu_ms_each": round(result.cpu * 1000 / max(len(ordered), 1), 2),
                "per_second": round(len(ordered) / lasted),
                "median_ms": round(statistics.median(ordered) * 1000),
                "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000),
                "largest_ms": round(ordered[-1] * 1000),
                "load_average": round(os.getloadavg()[0], 1),
            }
        )
    )
    assert not lost, "an acknowledged vote is lost"


if __name__ == "__main__":
    main_of_bench()
