"""A run that a signal stops keeps the replies that are on their way: they are paid for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import small
from servers import reply_body
from snellen.building.benchmark import Benchmark
from snellen.runs.journal import read_exchanges

IN_FLIGHT = 6


class HoldingServer:
    """An API that answers nothing until `release` is set, and counts what it was asked and what it answered."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self.release = threading.Event()
        self.full = threading.Event()
        self._lock = threading.Lock()
        self.url = ""

    def answer(self) -> bytes:
        with self._lock:
            self.asked += 1
            if self.asked == IN_FLIGHT:
                self.full.set()
        self.release.wait(60)
        with self._lock:
            self.answered += 1
        return reply_body("A").encode()


@contextmanager
def holding_server() -> Iterator[HoldingServer]:
    state = HoldingServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def reply(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.reply(b'{"object": "list", "data": []}')

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with suppress(BrokenPipeError, ConnectionResetError):  # it did not wait
                self.reply(state.answer())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        state.release.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def hangups_count() -> Iterator[None]:
    """Let processes start with the usual SIGHUP: under nohup it is ignored, and they would go on for ten minutes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    rows = small.rows(60, pictures=60)
    return small.built(rows, tmp_path_factory.mktemp("many") / "built", name="many")


def started(
    server: HoldingServer, benchmark: Benchmark, folder: Path, *flags: str
) -> subprocess.Popen[str]:
    model = f"openai:any@{server.url}?concurrency={IN_FLIGHT}"
    command = [sys.executable, "-m", "snellen", "run", model, str(benchmark.folder), *flags]
    process = subprocess.Popen(
        [*command, "-p", "vanilla", "--name", "run", "--runs", str(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert server.full.wait(60), process.stderr
    return process


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"{words!r} was never said")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_replies_on_their_way_are_kept(
    number: signal.Signals, many: Benchmark, tmp_path: Path
) -> None:
    with holding_server() as server:
        process = started(server, many, tmp_path)
        process.send_signal(number)
        line = wait_for_line(process, "still pending")
        assert f"{IN_FLIGHT} replies" in line
        server.release.set()
        _, error = process.communicate(timeout=60)

        assert process.returncode == 128 + number
        assert f"all replies so far are stored in {tmp_path / 'run'}" in error
        assert "Traceback" not in error
        exchanges = list(read_exchanges(tmp_path / "run"))
        assert len(exchanges) == server.answered == server.asked == IN_FLIGHT
        assert all(exchange.response.error is None for exchange in exchanges)

        # The same command asks the others only.
        server.full.clear()
        process = started_again(server, many, tmp_path)
        assert process == 0 and server.asked == 60


def started_again(server: HoldingServer, benchmark: Benchmark, folder: Path) -> int:
    model = f"openai:any@{server.url}?concurrency={IN_FLIGHT}"
    command = [sys.executable, "-m", "snellen", "run", model, str(benchmark.folder)]
    done = subprocess.run(
        [*command, "-p", "vanilla", "--name", "run", "--runs", str(folder), "--no-report"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode


def test_a_second_signal_stops_at_once(many: Benchmark, tmp_path: Path) -> None:
    with holding_server() as server:
        process = started(server, many, tmp_path)
        process.send_signal(signal.SIGINT)
        wait_for_line(process, "still pending")
        while process.poll() is None:  # the first half second counts as the same signal
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert process.returncode in (130, -signal.SIGINT)
        assert server.answered == 0
        if process.stderr is not None:
            process.stderr.close()
    assert list(read_exchanges(tmp_path / "run")) == []


def test_workers_keep_replies_on_their_way(many: Benchmark, tmp_path: Path) -> None:
    with holding_server() as server:
        process = started(server, many, tmp_path, "--workers", "2")
        process.send_signal(signal.SIGTERM)
        server_stays_at = server.asked
        threading.Timer(1.5, server.release.set).start()
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
        stored = list(read_exchanges(tmp_path / "run"))
        assert len(stored) == server.answered >= server_stays_at


def test_an_interrupted_cell_of_a_notebook_keeps_replies_on_their_way(
    many: Benchmark, tmp_path: Path
) -> None:
    """There an event loop runs in the main thread, and the run's in another."""
    program = """
import asyncio, json, sys
import snellen as sn

async def cell():
    try:
        sn.evaluate(sys.argv[1], sys.argv[2], "vanilla", name="run", runs=sys.argv[3])
    except KeyboardInterrupt:
        print("stopped", flush=True)

asyncio.run(cell())
"""
    with holding_server() as server:
        model = f"openai:any@{server.url}?concurrency={IN_FLIGHT}"
        process = subprocess.Popen(
            [sys.executable, "-c", program, model, str(many.folder), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.full.wait(60)
        process.send_signal(signal.SIGINT)
        threading.Timer(1.5, server.release.set).start()
        process.communicate(timeout=60)
        stored = list(read_exchanges(tmp_path / "run"))
        assert len(stored) == server.answered == server.asked


def test_the_journal_has_whole_lines_after_a_stop(many: Benchmark, tmp_path: Path) -> None:
    with holding_server() as server:
        process = started(server, many, tmp_path)
        process.send_signal(signal.SIGTERM)
        wait_for_line(process, "still pending")
        server.release.set()
        process.communicate(timeout=60)
    lines = (tmp_path / "run/journal-0.jsonl").read_bytes().splitlines()
    assert len([json.loads(line) for line in lines]) == IN_FLIGHT
