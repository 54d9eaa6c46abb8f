"""How large and how quick the HTML report of many models and benchmarks is; all of it by the code that users run.

    python bench/report_size.py [MODELS [BENCHMARKS [FILE]]]

Synthetic models of fixed accuracy answer synthetic benchmarks of ten questions, each with an image, in one
presentation and by likelihood. The page is kept in FILE. Where chromium is installed, it says how long the page is and
when it is painted; `python bench/report_size.py --look FILE` does that with any report.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

import snellen as sn
from snellen.common.seeds import rng_for
from snellen.records import ContinuationScore, Request, Response, Usage

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from browser import CHROMIUM, browsing

QUESTIONS = 10
DIMENSIONS = ("CG", "FG", "STP", "Spatial", "CMI", "VGR", "Desc", "Dialog")
PROTOCOLS = ["vanilla", "likelihood"]


class Synthetic:
    """Names the right option, the first, so often."""

    kinds = frozenset({"generate", "loglikelihood"})

    def __init__(self, number: int) -> None:
        self.name = f"vendor/Model-Name-{number}-7B-Instruct"
        self.fingerprint = str(number)
        self.share, self.number = 0.3 + 0.04 * number, number

    def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [
            Response(
                text=f"({'A' if self._is_right(one) else 'B'})",
                usage=Usage(600 + self.number, 4),
                seconds=0.1,
            )
            for one in requests
        ]

    def loglikelihood(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [
            Response(
                scores=tuple(
                    ContinuationScore(-1.0 - (place != (not self._is_right(one))), 1, 1)
                    for place in range(len(one.continuations))
                ),
                seconds=0.1,
            )
            for one in requests
        ]

    def _is_right(self, request: Request) -> bool:
        return rng_for(request.benchmark, request.sample_id, self.name, 0).random() < self.share


def build(folder: Path, count: int) -> list[str]:
    """Benchmarks of questions with a noisy image of some 15 kilobytes each; their folders."""
    folders = []
    for number in range(count):
        place = folder / f"benchmark-{number:02d}"
        (place / "images").mkdir(parents=True)
        lines = []
        for question in range(QUESTIONS):
            noise = rng_for(place.name, str(question), "picture", 0).randbytes(3 * 48 * 48)
            picture = Image.frombytes("RGB", (48, 48), noise).resize((320, 240))
            held = io.BytesIO()
            picture.save(held, "JPEG", quality=80)
            (place / "images" / f"{question}.jpg").write_bytes(held.getvalue())
            lines.append(
                {
                    "id": f"q{question}",
                    "image": f"images/{question}.jpg",
                    "question": f"What is shown in {question}?",
                    "options": ["a cat", "a dog", "a bird", "a fish"],
                    "answer": 0,
                    "tag_level": f"level {question % 3}",
                }
            )
        (place / "table.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
        name, dimension = place.name, DIMENSIONS[number % len(DIMENSIONS)]
        built = sn.build(
            place / "table.jsonl", name=name, to=folder / "built" / name, dimension=dimension
        )
        folders.append(str(built.folder))
    return folders


def main(models: str = "16", benchmarks: str = "61", to: str = "") -> None:
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        tables = build(folder, int(benchmarks))
        began = time.perf_counter()
        results = sn.evaluate(
            [Synthetic(n) for n in range(int(models))], tables, PROTOCOLS, runs=folder / "runs"
        )
        asked = time.perf_counter() - began
        began = time.perf_counter()
        page = results.report(folder / "report.html")
        print(
            f"{models} models x {benchmarks} benchmarks: {page.stat().st_size / 1e6:.2f} MB, written in "
            f"{time.perf_counter() - began:.1f} s (asked and scored in {asked:.1f} s)"
        )
        look(page)
        if to:
            Path(to).write_bytes(page.read_bytes())


def look(report: Path) -> None:
    """How long the page is on a phone, on a desk and on a wide screen, and when its first content is painted."""
    if CHROMIUM is None:
        return
    # A browser that was killed can write for a moment longer.
    held = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with held as profile, browsing(Path(profile)) as page:
        for width in (390, 1280, 2560):
            page.resize(width)
            page.open(report.resolve().as_uri())
            page.photograph("body")
            height = page.run("document.documentElement.scrollHeight")
            chart = page.run(
                "document.querySelector('.chart').getBoundingClientRect().bottom + scrollY"
            )
            paint = page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            print(
                f"{width} px wide: {height:,} px long, first chart ends at {chart:.0f} px, painted after {paint:.0f} ms"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look"]:
        look(Path(sys.argv[2]))
    else:
        main(*sys.argv[1:])
