"""Sheets of every kind of page under docs/pictures/pages: a phone in the dark, desks in light and dark, a wall."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from PIL import Image

import snellen as sn
from snellen.verification.audit import audited_items
from snellen.verification.audit_page import AuditForm, write_audit_page
from snellen.verification.datasheets.page import write_datasheet

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from browser import Page, browsing
from hosting import hosted
from leaderboard_parts import as_jsonl, board, gold, hidden_benchmark, other, predictions, scored
from view_runs import serving

SIZES = ((390, 1640, "dark"), (1280, 820, "light"), (1280, 820, "dark"), (2560, 1640, "light"))
"""Width, height and scheme of each part of a sheet; the last is shown at half its size."""
GAP = 16


def photograph_sheet(page: Page, address: str) -> Image.Image:
    """The top of a page at all sizes, on one picture."""
    parts = []
    for width, height, scheme in SIZES:
        page.resize(width, height)
        page.prefer(scheme)
        page.open(address)
        page.run("for (const part of document.querySelectorAll('img[loading=lazy]')) part.loading = 'eager'")
        parts.append(Image.open(io.BytesIO(page.screen())).convert("RGB"))
    phone, light, dark, wide = parts
    wide = wide.resize((wide.width // 2, wide.height // 2), Image.Resampling.LANCZOS)
    column = GAP + phone.width + GAP
    sheet = Image.new("RGB", (column + light.width + GAP + dark.width + GAP, GAP + phone.height + GAP), "#8a8f98")
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
    yield "datasheet", write_datasheet(sn.datasheet("eyechart/count"), folder / "sheet.html").resolve().as_uri()
    form = folder / "audit.html"
    write_audit_page(AuditForm(benchmark, audited_items(benchmark, 20), "Ann", {}), form)
    yield "audit", form.resolve().as_uri()


def view_pages(address: str, runs: list[str]) -> Iterator[tuple[str, str]]:
    """Those of `snellen view`."""
    yield "view-runs", address
    yield "view-run", f"{address}/run?run={runs[0]}"
    yield "view-compare", f"{address}/compare?run={runs[0]}&run={runs[1]}"
    yield "view-questions", f"{address}/questions?better={runs[0]}&worse={runs[1]}"


def server_pages(address: str) -> Iterator[tuple[str, str]]:
    """Those of a server with a board."""
    yield "server-home", address
    yield "server-leaderboard", f"{address}/leaderboard/animals"


def make_page_pictures(folder: Path, target: Path) -> None:
    """The sheets; `folder` has the runs of the demo in `demo`."""
    target.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        page = stack.enter_context(browsing(folder / "pages"))
        client = stack.enter_context(serving(folder / "demo", index=folder / "index", may_change=True))
        hidden = hidden_benchmark(folder, "animals", 200)
        boards = {"boards": [board(hidden, name="animals", title="Animals", about="Which animal is it?")]}
        server = stack.enter_context(hosted(folder / "server", feature={"leaderboard": boards}))
        anna = server.with_key("Anna", "submit")
        for name, model in (("Model A", gold), ("Model B", lambda i: gold(i) if i % 3 else other(i))):
            scored(anna, as_jsonl(predictions(model, 200)), model=name, is_public="true", parameters="7B")
        runs = sorted(path.parent.name for path in (folder / "demo").glob("*/results.json"))
        address = str(client.base_url).rstrip("/")
        for name, url in (*local_pages(folder), *view_pages(address, runs[-2:]), *server_pages(server.url)):
            photograph_sheet(page, url).save(target / f"{name}.webp", quality=70, method=6)
