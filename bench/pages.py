"""Every kind of page in a browser: what is sent, when it is painted, whether it shifts, where its first chart ends.

    python bench/pages.py [--rounds 5]

Pages are shown at 1,280 x 820 pixels, and each is opened `rounds` times with an empty cache of
images; times are the least, in milliseconds from the start of navigation, as the browser itself tells them
(`first-contentful-paint`, `largest-contentful-paint`, `layout-shift`). A chart that ends above 820 stands on the first
screen and is painted with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [
    str(ROOT / folder) for folder in ("tests", "packages/snellen-server/tests", "website")
]
import snellen as sn  # noqa: E402
from browser import Page, browsing  # noqa: E402
from hosting import RunningServer, hosted  # noqa: E402
from leaderboard_parts import as_jsonl, board, gold, hidden_benchmark, other, predictions, scored  # noqa: E402
from pictures import run  # noqa: E402
from snellen_lab import datasheet, write_datasheet  # noqa: E402
from snellen_lab.verification.audit_form import AuditForm, write_audit_page  # noqa: E402
from snellen_lab.verification.audited_questions import audited_items  # noqa: E402
from snellen_server.arena.standings import rate_arena  # noqa: E402
from snellen_server.explorer.feature import index_public_runs  # noqa: E402
from test_server_arena import Fight  # noqa: E402
from test_server_pages_browser import sign_in  # noqa: E402
from view_runs import serving, until  # noqa: E402

WIDTH, HEIGHT = 1280, 820
MEASURED = """new Promise(done => setTimeout(() => {
    const seen = {}, observer = new PerformanceObserver(() => {});
    const of = kind => { observer.observe({type: kind, buffered: true}); return observer.takeRecords(); };
    const chart = document.querySelector('svg.chart');
    const parts = performance.getEntriesByType('resource');
    const page = performance.getEntriesByType('navigation')[0];
    done({
        kilobytes: (page.decodedBodySize + parts.reduce((sum, one) => sum + one.decodedBodySize, 0)) / 1000,
        parts: parts.length,
        first: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0,
        largest: of('largest-contentful-paint').at(-1)?.startTime ?? 0,
        shift: of('layout-shift').reduce((sum, one) => sum + one.value, 0),
        chart: chart ? chart.getBoundingClientRect().bottom + scrollY : 0,
    });
}, 300))"""


RUNS = ("tiny", "tiny-xs")
"""The runs of the demo that pages show."""


def local_pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Pages that are files: a report, a datasheet, the form of an audit."""
    yield "report", (folder / "demo/report.html").resolve().as_uri()
    [card] = (folder / "demo").rglob("acuity.html")
    yield "acuity-card", card.resolve().as_uri()
    benchmark = sn.build("eyechart/count")
    yield (
        "datasheet",
        write_datasheet(datasheet("eyechart/count"), folder / "sheet.html").resolve().as_uri(),
    )
    form = folder / "audit.html"
    write_audit_page(AuditForm(benchmark, audited_items(benchmark, 20), "Ann", {}), form)
    yield "audit", form.resolve().as_uri()


def view_pages(address: str, runs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those of `snellen view`."""
    yield "view-runs", address
    yield "view-run", f"{address}/run?run={runs[0]}"
    yield "view-compare", f"{address}/compare?run={runs[0]}&run={runs[1]}"
    yield "view-questions", f"{address}/questions?better={runs[0]}&worse={runs[1]}"
    yield "view-start", f"{address}/start"


STUDY = """
name = "readings"
title = "How well models read"
instructions = "Look at the picture and the question, then rate the reply."

[[dimensions]]
name = "fit"
title = "Fit"
question = "Does the reply fit the picture?"
low = "not at all"
high = "fully"

[[dimensions]]
name = "waste"
title = "Waste of words"
better = "lower"
"""


@contextmanager
def house(folder: Path, runs: Sequence[str]) -> Iterator[RunningServer]:
    """A server with everything that it can have: a board, an arena with votes, an explorer, a study of ratings."""
    hidden = hidden_benchmark(folder, "animals", 200)
    for name in runs:
        shutil.copytree(folder / "demo" / name, folder / "server/runs" / name)
    (folder / "study.toml").write_text(STUDY)
    examples = folder / "examples"
    examples.mkdir()
    pictures = sorted(
        file for file in (sn.build("eyechart/count").folder / "images").rglob("*") if file.is_file()
    )
    for number, picture in enumerate(pictures[:3], start=1):
        shutil.copy(picture, examples / f"shapes {number}.png")
    models = [{"name": name, "model": f"snellen:{name}"} for name in ("tiny", "tiny-xs")]
    feature = {
        "leaderboard": {
            "boards": [board(hidden, name="animals", title="Animals", about="Which animal is it?")]
        },
        "arena": {"models": models, "resamples": 50, "examples": [str(examples)]},
        "explorer": {"public": ["*"]},
        "ratings": {
            "studies": [
                {"name": "readings", "study": str(folder / "study.toml"), "runs": list(runs)}
            ]
        },
    }
    with hosted(folder / "server", feature=feature) as server:
        anna = server.with_key("Anna", "submit")
        for name, model in (
            ("Model A", gold),
            ("Model B", lambda i: gold(i) if i % 3 else other(i)),
        ):
            scored(
                anna,
                as_jsonl(predictions(model, 200)),
                model=name,
                is_public="true",
                parameters="7B",
            )
        visitor = server.visitor()
        until(lambda: 'id="arena"' in visitor.get("/arena").text, seconds=300)
        for number in range(12):
            Fight(visitor, "How many shapes are there?").vote("left" if number % 3 else "tie")
        server.do(rate_arena(server.services))
        server.do(index_public_runs(server.services))
        yield server


def server_pages(page: Page, server: RunningServer, run: str) -> Iterator[tuple[str, str]]:
    """Those of a server."""
    yield "server-home", server.url
    yield "server-leaderboard", f"{server.url}/leaderboard/animals"
    yield "arena", f"{server.url}/arena"
    yield "arena-ratings", f"{server.url}/arena/ratings"
    yield "explorer", f"{server.url}/explorer/questions?run={run}"
    server.signed_in("Berta")
    sign_in(page, server, "Berta")
    yield "rating", f"{server.url}/ratings/readings"


def pages(folder: Path, page: Page, stack: ExitStack) -> Iterator[tuple[str, str]]:
    """Name and address of each kind."""
    server = stack.enter_context(house(folder, RUNS))
    yield from local_pages(folder)
    client = stack.enter_context(serving(folder / "demo", index=folder / "index", may_change=True))
    yield from view_pages(str(client.base_url).rstrip("/"), RUNS)
    yield from server_pages(page, server, RUNS[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        os.chdir(name)
        run("demo", "--limit", "12", "--runs", "demo")
        page = stack.enter_context(browsing(Path("browser")))
        page.resize(WIDTH, HEIGHT)
        print(
            "| page | kB | parts | first paint, ms | largest paint, ms | layout shift | first chart ends at, px |"
        )
        print("|---|---|---|---|---|---|---|")
        for kind, address in pages(Path.cwd(), page, stack):
            found = []
            for _ in range(rounds):
                page.open(address)
                found.append(page.run(MEASURED))
            first, largest = (min(each[key] for each in found) for key in ("first", "largest"))
            last = found[-1]
            chart = f"{last['chart']:,.0f}" if last["chart"] else ""
            print(
                f"| {kind} | {last['kilobytes']:,.0f} | {last['parts']} | {first:.0f} | {largest:.0f} | "
                f"{max(each['shift'] for each in found):.3f} | {chart} |"
            )


if __name__ == "__main__":
    main()
