"""What the OpenAI-compatible adapter costs per request, beside plain httpx, against a fixed latency.

    python bench/http_client.py [--requests 3000] [--concurrency 64] [--latency 0.1] [--profile]

The server runs in a process of its own. The ideal rate is concurrency / latency. CPU is the client
process's, in milliseconds a request; one core has 1000 of them a second.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import httpcore
import httpx
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers import start_server
from snellen.models import chat
from snellen.models.base import load_model
from snellen.models.openai import OpenAIModel
from snellen.records import ImagePart, ImageRef, Message, Request, TextPart, Variant

IMAGE_BYTES = 30_000
QUESTIONS_PER_IMAGE = 4
"""Presentations of a sample travel together, so an image is asked about several times in a row."""


class Picture:
    """Every image is the same bytes, in memory: the disk is not what is measured."""

    content = Random(0).randbytes(IMAGE_BYTES)

    def read(self, image: ImageRef) -> bytes:
        return self.content


def request_number(i: int) -> Request:
    image = ImageRef(f"{i // QUESTIONS_PER_IMAGE:064x}", "image/jpeg", 640, 480)
    text = TextPart(f"What is in picture {i}? Options: (A) a cat; (B) a dog; (C) a letter chart; (D) nothing.")
    return Request("bench", str(i), Variant(), (Message("user", (ImagePart(image), text)),))


async def drive(ask: Callable[[Request], Awaitable[object]], total: int, concurrency: int) -> tuple[float, float]:
    """Requests a second, and milliseconds of CPU a request, with `concurrency` always in flight."""
    requests = [request_number(i) for i in range(total)]
    left = iter(requests)

    async def worker() -> None:
        for request in left:
            await ask(request)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return total / wall, cpu / total * 1e3


async def measure_snellen(url: str, total: int, concurrency: int) -> tuple[float, float]:
    model = load_model(f"openai:any@{url}?concurrency={concurrency}")
    assert isinstance(model, OpenAIModel)

    async def ask(request: Request) -> None:
        response = await model.ask(request, Picture())
        assert response.error is None, response

    try:
        return await drive(ask, total, concurrency)
    finally:
        await model.close()


async def measure_httpx(url: str, total: int, concurrency: int) -> tuple[float, float]:
    """The plain way: the same bodies through one AsyncClient with as many connections."""
    pictures, dialect = chat.ImagePartCache(), chat.Dialect("drop", "max_tokens")
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=120) as client:

        async def ask(request: Request) -> None:
            body = chat.encode_chat("any", request, dialect, lambda image: pictures.part(image, Picture().read))
            reply = await client.post(f"{url}/chat/completions", content=body)
            msgspec.json.decode(reply.content)

        return await drive(ask, total, concurrency)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--requests", type=int, default=3000)
    options.add_argument("--concurrency", type=int, default=64)
    options.add_argument("--latency", type=float, default=0.1, help="seconds")
    options.add_argument("--profile", action="store_true", help="profile the adapter instead of comparing")
    given = options.parse_args()
    ideal = given.concurrency / given.latency
    with start_server(process=True, latency=given.latency, record=False) as server:
        if given.profile:
            profile = cProfile.Profile()
            profile.runcall(asyncio.run, measure_snellen(server.url, given.requests, given.concurrency))
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
            return
        print(
            f"{given.requests} requests, {given.concurrency} at once, latency {given.latency * 1e3:.0f} ms, "
            f"{IMAGE_BYTES} bytes an image; httpx {httpx.__version__}, httpcore {httpcore.__version__}"
        )
        for name, measure in (("snellen", measure_snellen), ("httpx", measure_httpx)):
            rate, cpu = asyncio.run(measure(server.url, given.requests, given.concurrency))
            print(f"{name:8} {rate:7.1f} requests/s  {rate / ideal:6.3f} of ideal  {cpu:6.3f} ms CPU a request")


if __name__ == "__main__":
    main()
