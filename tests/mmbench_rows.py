"""Files of MMBench's form as they go about: base rows, and their rotations as further rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import small
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec

Cells = dict[str, str]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MILLION = 1_000_000
PARTS = (
    ("coarse_perception", "image_style"),
    ("coarse_perception", "image_scene"),
    ("attribute_reasoning", "function_reasoning"),
)


def row(
    index: int | str,
    options: tuple[str, ...] = ("cat", "dog", "cow", "hen"),
    gold: int = 0,
    **cells: str,
) -> Cells:
    """A base row with an image of its own."""
    number = sum(str(index).encode())
    return {
        "index": str(index),
        "question": f"What is number {index}?",
        "hint": "",
        **dict(zip(LETTERS, options, strict=False)),
        "answer": LETTERS[gold],
        "category": PARTS[number % 3][1],
        "image": small.cell(number),
        "source": "made",
        "l2-category": PARTS[number % 3][0],
        "comment": "",
        "split": "dev",
        **cells,
    }


def options_of(row: Cells) -> list[str]:
    return [row[letter] for letter in LETTERS if row.get(letter)]


def rotation(
    base: Cells, turn: int, *, left: bool = False, step: int = MILLION, **cells: str
) -> Cells:
    """The row of a question's `turn`th rotation, its image a reference."""
    options = options_of(base)
    count = len(options)
    order = [(place + (turn if left else -turn)) % count for place in range(count)]
    gold = LETTERS.find(base.get("answer") or "?")
    answer = LETTERS[order.index(gold)] if gold in order else base.get("answer", "")
    return {
        **base,
        "index": str(int(base["index"]) + turn * step),
        **{letter: options[option] for letter, option in zip(LETTERS, order, strict=False)},
        "answer": answer,
        "image": base["image"] if len(base["image"]) <= 64 else base["index"],
        **cells,
    }


def rotated(*bases: Cells, **how: Any) -> list[Cells]:
    """All base rows, then all their rotations."""
    return [
        *bases,
        *(
            rotation(base, turn, **how)
            for base in bases
            for turn in range(1, len(options_of(base)))
        ),
    ]


def write(rows: list[Cells], path: Path, without: tuple[str, ...] = ()) -> Path:
    names = [
        name
        for name in dict.fromkeys(name for cells in rows for name in cells)
        if name not in without
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(
            file, names, delimiter="\t", extrasaction="ignore", quoting=csv.QUOTE_ALL
        )
        table.writeheader()
        table.writerows(rows)
    return path


def spec_of(path: Path, name: str = "mine", **params: Any) -> BenchmarkSpec:
    source = SourceSpec("mmbench", {"files": [path.name], **params})
    return BenchmarkSpec(name=name, title=name, formulation="choice", source=source)


def built(path: Path, to: Path | None = None, **params: Any) -> Benchmark:
    return build_benchmark(
        spec_of(path, **params), source=path.parent, to=to or path.parent / "made"
    )
