"""Sheets of every kind of page under docs/pictures/pages: a phone in the dark, desks in light and dark, a wall."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PIL import Image

import snellen as sn
from snellen.verification.audit import AuditForm, audited_items, write_audit_page
from snellen.verification.datasheet_page import write_datasheet
from snellen_server.arena.standings import rate_arena
from snellen_server.explorer.feature import index_public_runs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from browser import Page, browsing
from hosting import RunningServer, hosted
from leaderboard_parts import as_jsonl, board, gold, hidden_benchmark, other, predictions, scored
from test_server_arena import Fight
from test_server_pages_browser import sign_in
from view_runs import serving, until

SIZES = ((390, 1640, "dark"), (1280, 820, "light"), (1280, 820, "dark"), (2560, 1640, "light"))
"""Width, height and scheme of each part of a sheet; the last is shown at half its size."""
GAP = 16
RUNS = ("tiny", "tiny-xs")
"""The runs of the demo that pages show."""


def photograph_sheet(page: Page, address: str) -> Image.Image:
    """The top of a page at all sizes, on one picture."""
    parts = []
    for width, height, scheme in SIZES:
        page.resize(width, height)
        page.prefer(scheme)
        page.open(address)
        page.run(
            "for (const part of document.querySelectorAll('img[loading=lazy]')) part.loading = 'eager'"
        )
        parts.append(Image.open(io.BytesIO(page.screen())).convert("RGB"))
    phone, light, dark, wide = parts
    wide = wide.resize((wide.width // 2, wide.height // 2), Image.Resampling.LANCZOS)
    column = GAP + phone.width + GAP
    sheet = Image.new(
        "RGB", (column + light.width + GAP + dark.width + GAP, GAP + phone.height + GAP), "#8a8f98"
    )
    sheet.paste(phone, (GAP, GAP))
    sheet.paste(light, (column, GAP))
    sheet.paste(dark, (column + light.width + GAP, GAP))
    sheet.paste(wide, (column, GAP + light.height))
    return sheet


def local_pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Pages that are files: a report, a datasheet, the form of an audit."""
    yield "report", (folder / "demo/report.html").resolve().as_uri()
    [card] = (folder / "demo").rglob("acuity.html")
    yield "acuity-card", card.resolve().as_uri()
    benchmark = sn.build("eyechart/count")
    yield (
        "datasheet",
        write_datasheet(sn.datasheet("eyechart/count"), folder / "sheet.html").resolve().as_uri(),
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


def make_page_pictures(folder: Path, target: Path) -> None:
    """The sheets; `folder` has the runs of the demo in `demo`."""
    target.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        page = stack.enter_context(browsing(folder / "pages"))
        server = stack.enter_context(house(folder, RUNS))
        of_files = list(local_pages(folder))
        # Last, as these build benchmarks again, and runs on them would be indexed again while they are photographed.
        client = stack.enter_context(
            serving(folder / "demo", index=folder / "index", may_change=True)
        )
        address = str(client.base_url).rstrip("/")
        page.open(f"{address}/?token={client.headers['token']}")  # as somebody who may start runs
        for name, url in (*of_files, *view_pages(address, RUNS)):
            photograph_sheet(page, url).save(target / f"{name}.webp", quality=70, method=6)
        for name, url in server_pages(page, server, RUNS[0]):
            photograph_sheet(page, url).save(target / f"{name}.webp", quality=70, method=6)
