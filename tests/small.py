"""Small real inputs: images, tables of questions, benchmarks built from them."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import snellen
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.cli import main
from snellen.errors import DataError
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import default_templates
from snellen.readers import table

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat")


def picture(colour: int = 0, form: str = "PNG", size: tuple[int, int] = (8, 6)) -> bytes:
    """An image file; different colours give different bytes."""
    out = io.BytesIO()
    Image.new("RGB", size, (colour * 37 % 256, colour % 256, 90)).save(out, form)
    return out.getvalue()


def cell(colour: int = 0) -> str:
    """An image as it stands in a table."""
    return base64.b64encode(picture(colour)).decode()


def rows(count: int, options: int = 4, pictures: int | None = None) -> list[dict[str, Any]]:
    """Questions with known answers; two share an image unless said otherwise."""
    shown = pictures or (count + 1) // 2
    return [
        {
            "id": f"q{i:03d}",
            "question": f"Which animal is number {i}?",
            "options": list(ANIMALS[:options]),
            "answer": i % options,
            "image": cell(i % shown),
            "tag_level": ("easy", "hard")[i % 2],
        }
        for i in range(count)
    ]


def write(rows: list[dict[str, Any]], path: Path) -> Path:
    """Rows as .jsonl, .tsv or .csv, by the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, names, delimiter="\t" if path.suffix == ".tsv" else ",")
        table.writeheader()
        table.writerows(rows)
    return path


def meant(path: Path, **params: Any) -> dict[str, bool]:
    """Says of a table that what is missing from it is meant to be."""
    for missing in ((), ("no_images",), ("hidden_answers",), ("no_images", "hidden_answers")):
        told = dict.fromkeys(missing, True)
        with suppress(DataError):
            list(table.read({"file": path.name, **params, **told}, path.parent))
            return told
    return {}


def spec_of(path: Path, name: str = "mine", images: str = "", **facts: Any) -> BenchmarkSpec:
    source = SourceSpec(
        "table", {"file": path.name, "images": images, **meant(path, images=images)}
    )
    return BenchmarkSpec(
        **{"name": name, "title": name, "formulation": "choice", "source": source, **facts}
    )


def built(
    rows: list[dict[str, Any]],
    to: Path,
    *,
    suffix: str = ".jsonl",
    name: str = "mine",
    **facts: Any,
) -> Benchmark:
    """A benchmark made from rows, in the folder `to`."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(rows, Path(folder) / f"table{suffix}")
        return build_benchmark(spec_of(path, name, **facts), source=path.parent, to=to)


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `snellen WORDS`."""
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


_COMMANDS = """
import json, sys
from snellen.cli import main
from snellen.errors import DataError
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as ended:
        print(f"[exit {ended.code or 0}]", flush=True)
"""


def snellen_commands(folder: Path, *commands: list[str], python: str = "") -> Iterator[str]:
    """What each command prints, all run in one process of its own in that folder, by another Python where one is named.

    All of them must succeed, and none may warn.
    """
    places = {"SNELLEN_HOME": str(folder / "home"), "SNELLEN_SUITES": "", "COLUMNS": "200"}
    places["PYTHONPATH"] = "" if python else str(Path(snellen.__file__).parents[1])
    done = subprocess.run(
        [python or sys.executable, "-W", "error", "-c", _COMMANDS, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        env={**os.environ, **places},
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split("[exit ")
    assert len(shown) == len(commands) + 1, done.stdout + done.stderr
    codes = [part.partition("]")[0] for part in shown[1:]]
    assert set(codes) == {"0"}, (codes, done.stderr)
    return iter(
        [part.partition("]\n")[2] if place else part for place, part in enumerate(shown[:-1])]
    )


def prompt_for(family: str, **settings: object) -> PromptRenderer:
    """Snellen's own templates for a task family."""
    return PromptRenderer(default_templates(), family, **settings)  # type: ignore[arg-type]


@contextmanager
def running(server: HTTPServer) -> Iterator[None]:
    """A server that answers in a thread of its own until the block ends."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
