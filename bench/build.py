"""Speed and memory of building from official files: a synthetic source of COCO's size.

    python bench/build.py [--images 5000] [--captions 25000] [--rows 500000] [--keep FOLDER]

The source has so many images of 640 x 480 pixels, captions in COCO's form, and questions in VQA v2's form, ten
answers each, which make up the rows with the captions. Each benchmark is built complete in a process of its own, with
distractors from the answers of other questions; nothing is drawn on images. One line a benchmark: rows of the
source, samples and images built, rows per second of the whole build (every image is decoded and kept once) and per
second of CPU, and the peak of its memory.
`--keep` makes the source there, or uses what an earlier run made.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from PIL import Image

from snellen.building.builder import build_benchmark
from snellen.building.recipe import Recipe
from snellen.catalogue import entries
from snellen.common.seeds import rng_for
from snellen.reformulation.sampling import Sampling

BENCHMARKS = ("vqav2", "coco-caption")
MEASURED = ("rows/s", "rows/CPU s", "seconds", "CPU s", "peak MiB")
KINDS = {
    "what is the": "other",
    "what color is the": "other",
    "how many": "number",
    "is the": "yes/no",
}
ANSWERS = {
    "what is the": [
        f"{first}{second}"
        for first in "ba co di fe gu ha ki lo".split()
        for second in (f"{n:03d}" for n in range(400))
    ],
    "what color is the": "red green blue white black brown yellow gray pink orange".split(),
    "how many": [str(n) for n in range(40)],
    "is the": ["yes", "no"],
}


def make_source(folder: Path, pictures: int, captions: int, questions: int) -> None:
    for split in ("val2014", "val2017"):
        (folder / split).mkdir(parents=True)
    for number, content in enumerate(_pictures(pictures)):
        picture = folder / "val2014" / f"COCO_val2014_{number:012d}.jpg"
        picture.write_bytes(content)
        (folder / "val2017" / f"{number:012d}.jpg").hardlink_to(picture)
    (folder / "annotations").mkdir()
    images = [
        {"id": n, "file_name": f"{n:012d}.jpg", "height": 480, "width": 640}
        for n in range(pictures)
    ]
    said = (
        {"image_id": n % pictures, "id": n, "caption": f"A man and dog {n} ride a board."}
        for n in range(captions)
    )
    path = folder / "annotations" / "captions_val2017.json"
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": list(said)}))
    _write(
        folder / "v2_OpenEnded_mscoco_val2014_questions.json",
        "questions",
        _questions(questions, pictures),
    )
    _write(
        folder / "v2_mscoco_val2014_annotations.json",
        "annotations",
        _annotations(questions, pictures),
    )


def _pictures(count: int) -> Iterator[bytes]:
    """Files of one look whose bytes differ: a comment in each holds its number."""
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC).save(
        out, "JPEG", quality=90
    )
    head, rest = out.getvalue()[:2], out.getvalue()[2:]
    for number in range(count):
        text = f"image {number}".encode()
        yield head + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + rest


def _asked(number: int) -> tuple[str, str]:
    """The type of a question, and its gold."""
    of = list(KINDS)[number % len(KINDS)]
    return of, rng_for("bench", number).choice(ANSWERS[of])


def _questions(count: int, pictures: int) -> Iterator[dict[str, Any]]:
    # Questions about one image lie far apart, so that the build brings them together.
    for n in range(count):
        text = f"{_asked(n)[0]} thing in the middle of the picture, {n}?"
        yield {"image_id": n % pictures, "question": text, "question_id": n * 3}


def _annotations(count: int, pictures: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        of, gold = _asked(n)
        given = [gold] * 8 + [f"{gold} or so", "I do not know"]
        yield {
            "question_type": of,
            "multiple_choice_answer": gold,
            "answers": [
                {"answer": a, "answer_confidence": "yes", "answer_id": i}
                for i, a in enumerate(given, 1)
            ],
            "image_id": n % pictures,
            "answer_type": KINDS[of],
            "question_id": n * 3,
        }


def _write(path: Path, name: str, items: Iterable[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.write(f'{{"info": {{"version": "2.0"}}, "{name}": [')
        for number, item in enumerate(items):
            file.write((", " if number else "") + json.dumps(item))
        file.write('], "data_type": "mscoco"}')


def measure(name: str, source: Path) -> dict[str, Any]:
    """Build one benchmark complete, and say what that took."""
    spec = entries()[f"reform-eval/{name}"]
    spec = replace(spec, source=replace(spec.source, select=Sampling()))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        recipe = Recipe(sample=Sampling(), distractors="pool")
        counts = build_benchmark(
            spec, source=source, to=Path(folder) / name, recipe=recipe
        ).manifest.counts
        seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "samples": counts.samples,
        "pictures": counts.images,
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=5_000)
    parser.add_argument("--captions", type=int, default=25_000)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", choices=BENCHMARKS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only:
        print(json.dumps(measure(chosen.only, chosen.keep)))
        return
    rows = {"vqav2": chosen.rows - chosen.captions, "coco-caption": chosen.captions}
    with tempfile.TemporaryDirectory() as folder:
        source = chosen.keep or Path(folder) / "source"
        if not source.exists():
            make_source(source, chosen.pictures, chosen.captions, rows["vqav2"])
        print(
            f"{'':14}"
            + "".join(f"{name:>10}" for name in ("rows", "samples", "pictures", *MEASURED))
        )
        found = []
        for name in BENCHMARKS:
            command = [sys.executable, __file__, "--only", name, "--keep", str(source)]
            found.append(
                json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            )
            show(name, rows[name], found[-1])
    total = {key: sum(one[key] for one in found) for key in found[0]}
    show("in all", chosen.rows, {**total, "peak": max(one["peak"] for one in found)})


def show(name: str, rows: int, one: dict[str, Any]) -> None:
    speed, cpu_speed = rows / one["seconds"], rows / one["cpu"]
    print(
        f"{name:14}{rows:10,}{one['samples']:10,}{one['pictures']:10,}{speed:10,.0f}{cpu_speed:10,.0f}"
        f"{one['seconds']:10.1f}{one['cpu']:10.1f}{one['peak']:10,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
