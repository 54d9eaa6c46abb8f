"""Size and speed of a file of MMBench's form: built whole, in a process of its own.

    python bench/mmbench.py [--questions 1164] [--kilobytes 60] [--form legacy]

The images are noise, which JPEG does not shrink; `legacy` repeats each in all rotations of its question, `reference`
has the index of the base row there. Prints the file's size, the seconds of a build, and the most memory it took.
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import random
import resource
import tempfile
import time
from pathlib import Path

from PIL import Image

from snellen.api import build

OPTIONS = ("cat", "dog", "cow", "hen")


def picture(draw: random.Random, kilobytes: int) -> str:
    side = int((kilobytes * 1024 / 1.1) ** 0.5)
    out = io.BytesIO()
    Image.frombytes("L", (side, side), draw.randbytes(side * side)).save(out, "JPEG", quality=75)
    return base64.b64encode(out.getvalue()).decode()


def write(path: Path, questions: int, kilobytes: int, form: str) -> None:
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(
            (
                "index",
                "question",
                "hint",
                *"ABCD",
                "answer",
                "category",
                "image",
                "l2-category",
                "split",
            )
        )
        for index in range(questions):
            cell = picture(draw, kilobytes)
            for turn in range(4):
                shown = [OPTIONS[(place - turn) % 4] for place in range(4)]
                table.writerow(
                    (
                        index + turn * 1_000_000,
                        f"What is number {index}?",
                        "",
                        *shown,
                        "ABCD"[turn],
                        "ocr",
                        cell if turn == 0 or form == "legacy" else index,
                        "logic_reasoning",
                        "dev",
                    )
                )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--questions", type=int, default=1164)
    options.add_argument("--kilobytes", type=int, default=60)
    options.add_argument("--form", choices=("legacy", "reference"), default="legacy")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.tsv"
        write(path, chosen.questions, chosen.kilobytes, chosen.form)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.process_time()
        made = build(path, to=Path(folder) / "made")
        spent = time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{path.stat().st_size / 1e6:.0f} MB, {made.manifest.counts.samples:,} questions: "
            f"{spent:.1f} CPU seconds, {peak / 1024:.0f} MB at most ({before / 1024:.0f} MB before the build)"
        )


if __name__ == "__main__":
    main()
