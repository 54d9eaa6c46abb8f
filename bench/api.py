"""What asking a model over HTTP costs a whole run, beside a plain loop and an earlier revision, in one interleaved run.

    python bench/api.py                      # all three scenes, five turns
    python bench/api.py --scene steady --turns 7 --against REVISION

* `steady`: 64 requests in flight, images of 30 kB, a server that takes 100 ms. The ideal is 640 requests a second.
* `stray`: the same, and one of ten questions is turned away, once, with 429 and `Retry-After: 1`.
* `large`: 64 in flight with images of 3 MB.

The server is a process of its own and says how long it was asked, from the first request to the last reply. The
floor is a loop over asyncio's streams that sends the same number of bytes, reads each reply and writes it into a file.
A run is `snellen run`, measured whole by the operating system (`wait4`); its CPU per request is what it took beyond a
run of one request. Printed are medians over the turns, each of which runs every side once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from commands import ROOT, Usage, prepare, run_command, unpack_revision

IN_FLIGHT, LATENCY = 64, 0.1
STRAY, RETRY_AFTER = 0.1, b"1"
END_BYTES = 400
REPLY = msgspec.json.encode(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "(A)"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 700, "completion_tokens": 3, "total_tokens": 703},
    }
)
MODEL = "openai:any@http://127.0.0.1:{port}/v1?concurrency=" + str(IN_FLIGHT)


class Scene(NamedTuple):
    questions: int
    image_bytes: int
    stray: float = 0.0


SCENES = {
    "steady": Scene(3_000, 30_000),
    "stray": Scene(6_000, 30_000, STRAY),
    "large": Scene(192, 3_000_000),
}


class Service(msgspec.Struct):
    """What the server has seen."""

    requests: int = 0
    in_hand: int = 0
    peak: int = 0
    began: float = 0.0
    ended: float = 0.0
    turned_away: set[bytes] = msgspec.field(default_factory=set)
    """The ends of requests, in which the questions stand."""


class ServedConnection(asyncio.Protocol):
    """Reads requests by their content-length, and answers each after the latency or turns it away."""

    def __init__(self, service: Service, stray: float, chance: random.Random) -> None:
        self._service, self._stray, self._chance = service, stray, chance
        self._head, self._left, self._end = b"", 0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._left:
            head, found, body = (self._head + data).partition(b"\r\n\r\n")
            if not found:
                self._head = head
                return
            self._head, data = b"", body
            self._left = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            self._service.began = self._service.began or time.monotonic()
        self._left -= len(data)
        self._end = (self._end + data)[-END_BYTES:]
        if not self._left:
            self._take()

    def _take(self) -> None:
        service = self._service
        service.requests += 1
        service.in_hand += 1
        service.peak = max(service.peak, service.in_hand)
        turned_away = self._end not in service.turned_away and self._chance.random() < self._stray
        if turned_away:
            service.turned_away.add(self._end)
        asyncio.get_running_loop().call_later(LATENCY, self._reply, turned_away)

    def _reply(self, turned_away: bool) -> None:
        status = (
            b"429 Too Many Requests\r\nretry-after: " + RETRY_AFTER if turned_away else b"200 OK"
        )
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (
            status,
            len(REPLY),
        )
        self._transport.write(head + REPLY)
        self._service.in_hand -= 1
        self._service.ended = time.monotonic()


async def serve(stray: float) -> None:
    """Serve until standard input ends, then print what was seen."""
    service, chance, loop = Service(), random.Random(0), asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: ServedConnection(service, stray, chance), "127.0.0.1", 0, backlog=512
    )
    print(listener.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    service.turned_away.clear()
    print(msgspec.json.encode(service).decode(), flush=True)


async def plain_loop(port: int, requests: int, body_bytes: int) -> None:
    """The floor: one body, as many connections as requests in flight, a line in a file for each reply."""
    left = iter(range(requests))
    body = b"x" * body_bytes
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
        % len(body)
    )

    async def worker() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            writer.write(head)
            writer.write(body)
            reply = await reader.readuntil(b"\r\n\r\n")
            size = int(reply.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            text = msgspec.json.decode(await reader.readexactly(size))["choices"][0]["message"][
                "content"
            ]
            journal.write(b"%d %b\n" % (number, text.encode()))
            journal.flush()
        writer.close()

    with Path("floor.txt").open("wb") as journal:
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


@contextmanager
def served(stray: float, seen: list[Service]) -> Iterator[int]:
    """A server in a process of its own; its port. What it saw is added to `seen` when it has ended."""
    words = [sys.executable, __file__, "--serve", str(stray)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        yield int(server.stdout.readline())
        server.stdin.close()
        seen.append(msgspec.json.decode(server.stdout.readline(), type=Service))


class Measured(NamedTuple):
    usage: Usage
    service: Service

    @property
    def seconds(self) -> float:
        return self.service.ended - self.service.began


def measure(words: Sequence[str], sources: Path, home: Path, stray: float = 0.0) -> Measured:
    """Run a command, in which `{port}` is that of a fresh server."""
    seen: list[Service] = []
    with served(stray, seen) as port:
        usage = run_command([word.format(port=port) for word in words], sources, home)
    return Measured(usage, seen[0])


def write_table(folder: Path, scene: Scene) -> None:
    """A table of choices over JPEG images of noise: one image, with a number behind its end."""
    from io import BytesIO

    from PIL import Image

    rng = random.Random(0)
    side = int((scene.image_bytes / 1.33) ** 0.5)
    content = BytesIO()
    Image.frombytes("RGB", (side, side), rng.randbytes(side * side * 3)).save(
        content, "JPEG", quality=80
    )
    folder.mkdir(parents=True)
    rows = []
    for number in range(scene.questions):
        (folder / f"{number}.jpg").write_bytes(content.getvalue() + b"%08d" % number)
        row = {
            "id": f"q{number}",
            "question": f"What is in picture {number}?",
            "image": f"{number}.jpg",
        }
        rows.append(
            json.dumps({**row, "options": ["a cat", "a dog", "a chart", "nothing"], "answer": "B"})
        )
    (folder / "rows.jsonl").write_text("\n".join(rows))


def run_words(turn: int | str, *limit: str) -> list[str]:
    return [
        "-m",
        "snellen",
        "run",
        MODEL,
        "bench",
        "--protocol",
        "vanilla",
        "--name",
        f"run-{turn}",
        *limit,
    ]


class Row(NamedTuple):
    cpu: float
    """Milliseconds per request beyond a run of one request."""
    whole_cpu: float
    """Seconds of the whole process."""
    seconds: float
    """From the first request to the last reply."""
    memory: float
    """Peak resident MB."""


def measure_scene(scene: Scene, turns: int, against: str) -> dict[str, list[Row]]:
    """What each side took in each turn."""
    rows: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        write_table(place / "source", scene)
        body_bytes = (place / "source" / "0.jpg").stat().st_size * 4 // 3 + 400
        floor = [__file__, "--floor", "{port}", str(scene.questions), str(body_bytes)]
        sides = {
            "now": (ROOT / "src", place / "now"),
            against[:7]: (unpack_revision(against, place / "old"), place / "then"),
        }
        for sources, home in sides.values():
            prepare(home, sources, place / "source")
            measure(run_words("first", "--limit", "1"), sources, home)
        for turn in range(turns):
            plain = measure(floor, ROOT / "src", place / "now")
            rows.setdefault("floor", []).append(_row(plain, 0.0, scene))
            for name, (sources, home) in sides.items():
                alone = measure(run_words(f"{turn}-alone", "--limit", "1"), sources, home).usage.cpu
                if scene.stray:
                    calm = measure(run_words(f"{turn}-calm"), sources, home)
                    rows.setdefault(f"{name}, none stray", []).append(_row(calm, alone, scene))
                whole = measure(run_words(turn), sources, home, scene.stray)
                rows.setdefault(name, []).append(_row(whole, alone, scene))
    return rows


def _row(measured: Measured, alone: float, scene: Scene) -> Row:
    usage = measured.usage
    return Row(
        (usage.cpu - alone) / scene.questions * 1e3, usage.cpu, measured.seconds, usage.memory
    )


def show(name: str, scene: Scene, rows: dict[str, list[Row]]) -> None:
    """The medians of one scene; a share of the ideal and of the floor is of requests per second."""
    ideal = scene.questions / IN_FLIGHT * LATENCY
    print(
        f"\n{name}: {scene.questions:,} requests, images of {scene.image_bytes / 1e3:,.0f} kB, {scene.stray:.0%} "
        f"turned away; {IN_FLIGHT} in flight, {LATENCY * 1e3:.0f} ms, ideal {ideal:.2f} s"
    )
    print(
        f"{'':<22}{'ms CPU/request':>15}{'CPU s':>8}{'s':>8}{'of ideal':>10}{'of floor':>10}{'times calm':>12}{'MB':>7}"
    )
    for side, turns in rows.items():
        calm = rows.get(f"{side}, none stray")
        shares = (
            [ideal / row.seconds for row in turns],
            [floor.seconds / row.seconds for row, floor in zip(turns, rows["floor"], strict=True)],
        )
        times = (
            statistics.median(
                row.seconds / one.seconds for row, one in zip(turns, calm, strict=True)
            )
            if calm
            else 0
        )
        medians = Row(*(statistics.median(values) for values in zip(*turns, strict=True)))
        print(
            f"{side:<22}{medians.cpu:>15.3f}{medians.whole_cpu:>8.2f}{medians.seconds:>8.2f}"
            f"{statistics.median(shares[0]):>10.3f}{statistics.median(shares[1]):>10.3f}"
            f"{times or '':>12.4}{medians.memory:>7.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scene", choices=SCENES)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument(
        "--against", default=(ROOT / "bench" / "pinned-revision").read_text().strip()
    )
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--floor", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
    elif options.floor:
        asyncio.run(plain_loop(*options.floor))
    else:
        for name in [options.scene] if options.scene else SCENES:
            show(name, SCENES[name], measure_scene(SCENES[name], options.turns, options.against))


if __name__ == "__main__":
    main()
