"""Speed of `snellen view`: how long an index takes, and how long pages of many questions take over HTTP.

    python bench/view.py [--questions 100000] [--models 2] [--small-runs 98] [--rounds 5] [--folder FOLDER]

Models are objects that answer at once; the runs, the index and the server are the real ones. Beside the runs of
`questions` there are `small-runs` of 1,000, most of them copies of two. Medians of `rounds`, in milliseconds: of each
page's first request to a server that has just begun, and of the next one, for which much is kept in memory. The last
column is what the first took of the processor, server and client together: on a machine with other work that says more
than the clock. In a `--folder`, runs and index are kept for the next call, also of other code, which is to be compared
in turns.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import httpx

import snellen as sn
from snellen.common.images import Images
from snellen.common.seeds import rng_for
from snellen.models.base import ALL_KINDS
from snellen.records import Request, Response
from snellen.viewing.library import RunLibrary
from snellen.viewing.local_pages import LocalPages, make_server
from snellen.viewing.serving import open_listener

SMALL = 1_000
PAGES = {
    "table of runs": "/",
    "table, by headline": "/?sort=-headline",
    "a run": "/run?run=run0",
    "two small runs compared": "/compare?run=small0&run=small1",
    "first questions": "/questions",
    "page 100": "/questions?page=100",
    "wrong": "/questions?outcome=wrong",
    "wrong in one run, by share": "/questions?outcome=wrong&run=run0&sort=hardest",
    "models disagree": "/questions?disagree=1",
    "right here, not there": "/questions?better=run0&worse=run1",
    "a rare word": "/questions?q=number+777+here",
    "a word of every question": "/questions?q=animal",
    "two letters": "/questions?q=77",
    "a word of half the replies": "/questions?q=answer",
    "a tag": "/questions?tag=level%3Dhard",
    "a question": "/question?of=many&sample=q000007&outcome=wrong",
}


class Quick:
    """Right more often than not; half of its replies have words before the label, such as are read at once: pages are
    measured here, not reading."""

    kinds = ALL_KINDS
    batch_size = 512

    def __init__(self, number: int) -> None:
        self.name = f"model{number}"

    def fingerprint(self) -> dict[str, str]:
        return {"model": self.name}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [self._reply(request) for request in requests]

    loglikelihood = generate

    def _reply(self, request: Request) -> Response:
        draw = rng_for(self.name, request.sample_id)
        label = request.variant.labels[draw.randrange(4) if draw.random() < 0.5 else 0]
        return Response(text=f"{'The answer is ' if draw.random() < 0.5 else ''}({label})")


def write_table(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.write("id\tquestion\tA\tB\tC\tD\tanswer\ttag_level\n")
        for i in range(count):
            level = ("easy", "hard")[i % 2]
            file.write(
                f"q{i:06d}\tWhich animal is number {i} here?\tcat\tdog\thorse\tcow\t{'ABCD'[i % 4]}\t{level}\n"
            )


def evaluate_many(folder: Path, benchmark: str, questions: int, run: str, models: int) -> None:
    write_table(folder / f"{benchmark}.tsv", questions)
    made = sn.build(
        folder / f"{benchmark}.tsv", name=benchmark, to=folder / benchmark, no_images=True
    )
    for number in range(models):
        name = f"{run}{number}"
        sn.evaluate(
            Quick(number),
            str(made.folder),
            "vanilla",
            runs=folder / "runs",
            name=name,
            report=False,
        )


def milliseconds(client: httpx.Client, address: str) -> tuple[float, float]:
    """By the clock, and of the processor."""
    start, busy = time.perf_counter(), time.process_time()
    reply = client.get(address)
    assert reply.status_code == 200, (address, reply.status_code)
    return 1000 * (time.perf_counter() - start), 1000 * (time.process_time() - busy)


def make_runs(folder: Path, questions: int, models: int, small_runs: int) -> None:
    evaluate_many(folder, "many", questions, "run", models)
    evaluate_many(folder, "few", SMALL, "small", 2)
    for number in range(2, small_runs):
        shutil.copytree(folder / f"runs/small{number % 2}", folder / f"runs/small{number}")


def time_pages(library: RunLibrary, times: dict[str, list[tuple[float, float, float]]]) -> None:
    """By page what the first request took, the next one, and of the processor the first."""
    listener = open_listener(0)
    server = make_server(LocalPages(library))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    with httpx.Client(
        base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=120
    ) as client:
        for words, address in PAGES.items():
            (first, busy), (following, _) = (
                milliseconds(client, address),
                milliseconds(client, address),
            )
            times[words].append((first, following, busy))
    server.should_exit = True
    thread.join()  # it writes into the folder of the runs until it ends


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=2)
    parser.add_argument("--small-runs", type=int, default=98)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        start = time.perf_counter()
        if not (folder / "runs").exists():
            make_runs(folder, chosen.questions, chosen.models, chosen.small_runs)
        print(f"runs made: {time.perf_counter() - start:.0f} s", flush=True)
        library = RunLibrary([folder / "runs"], folder / "index.sqlite")
        start = time.perf_counter()
        library.refresh()
        size = (folder / "index.sqlite").stat().st_size / 1e6
        runs = f"{chosen.models} x {chosen.questions:,} and {chosen.small_runs} x {SMALL:,}"
        print(f"index of {runs}: {time.perf_counter() - start:.1f} s, {size:.0f} MB", flush=True)
        times: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for _ in range(chosen.rounds):
            time_pages(RunLibrary([folder / "runs"], folder / "index.sqlite"), times)
        print(f"{'page':28} {'first':>8} {'next':>8} {'busy':>8}   ms")
        for words, of_page in times.items():
            first, following, busy = map(statistics.median, zip(*of_page, strict=True))
            print(f"{words:28} {first:8.0f} {following:8.0f} {busy:8.0f}")


if __name__ == "__main__":
    main()
