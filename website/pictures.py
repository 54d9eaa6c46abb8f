"""Make the pictures of docs/images: a terminal as SVG, reports as a browser shows them. `make pictures` runs this."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import MONOKAI

from snellen.cli import main, show

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from browser import Page, browsing

PICTURES = Path(__file__).parent.parent / "docs" / "images"
WIDTH, HEIGHT = 1280, 820
COLUMNS = 118
COLOURS = 256
"""Colours of a screenshot that is kept: pages have few, and a small file is worth more than their last shade."""
FONTS = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
TERMINAL = FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code,", "ui-monospace, Menlo, Consolas,")
"""The picture of a terminal, without the font that it would load from elsewhere."""


@contextmanager
def recorded(name: str) -> Iterator[Console]:
    """What commands print in the block becomes the picture of a terminal."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        emoji=False,
        highlight=False,
    )
    before, show.console = show.console, console
    try:
        yield console
    finally:
        show.console = before
    PICTURES.joinpath(name).write_text(
        console.export_svg(title="snellen", theme=MONOKAI, code_format=TERMINAL), "utf-8"
    )


def run(*words: str) -> None:
    """A command as a user gives it. Raises SystemExit when it fails."""
    try:
        main(words)
    except SystemExit as stopped:
        if stopped.code:
            raise


def photograph(page: Page, report: Path, place: str, name: str) -> None:
    """A report from one of its places on, as a browser shows it."""
    page.open(report.resolve().as_uri())
    page.run(f"(document.querySelector({place!r}).closest('details') ?? {{}}).open = true")
    keep(Image.open(io.BytesIO(page.photograph(place))), name)


def keep(picture: Image.Image, name: str) -> None:
    """A picture of the documentation, in few colours."""
    few = picture.convert("RGB").quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    few.save(PICTURES / name, optimize=True)


def make_pictures() -> None:
    PICTURES.mkdir(exist_ok=True)
    with recorded("run.svg") as console:
        words = "run snellen:tiny eyechart/colour -p circular --limit 12"
        console.print(f"[bold green]$[/] snellen {words}", markup=True)
        run(*words.split(), "--name", "run")
    run("demo", "--limit", "12", "--runs", "demo")
    with browsing(Path("browser")) as page:
        page.resize(WIDTH, HEIGHT)
        photograph(page, Path("demo/report.html"), "body", "report.png")
        photograph(page, Path("runs/run/report.html"), "#entries", "samples.png")
        page.resize(2560, 1300)
        photograph(page, Path("demo/report.html"), "body", "report-wide.png")
        page.resize(390, 844)
        page.prefer("dark")
        photograph(page, Path("demo/report.html"), "body", "report-phone.png")


def photograph_curves(card: Path) -> None:
    """The first curves of an acuity card, without what stands above them."""
    with tempfile.TemporaryDirectory() as scratch, browsing(Path(scratch)) as page:
        page.resize(WIDTH, 1060)
        page.open(card.resolve().as_uri())
        picture = Image.open(io.BytesIO(page.photograph("#curves")))
        top = page.run("document.querySelector('#curves').getBoundingClientRect().top")
        keep(picture.crop((0, int(top) - 10, *picture.size)), "acuity.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--curves",
        type=Path,
        metavar="CARD",
        help="only those of the card of bench/acuity_readers.py",
    )
    if card := parser.parse_args().curves:
        photograph_curves(card)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            make_pictures()
    sys.stdout.write(f"pictures lie in {PICTURES}\n")
