"""Replies read per second on one core, by extractor: `python bench/extract.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from snellen.extraction import STANDARD, Extractor, named_extractors

OPTIONS = ("red", "blue", "green", "yellow")
LABELS = ("A", "B", "C", "D")
SHORT = ("(B)", " (B) blue.", "B", "The answer is (A) red.", "The answer is (B).", "(D) yellow")
PROSE = (
    "It is blue.",
    "I would say the car is blue, not red.",
    "The correct option is B, because the sky is blue.",
)
LONG = (
    ("The sky in the picture has some colour or other, and it is not red. " * 30)
    + "The answer is (B).",
)
HOSTILE = ("A. \n" * 50_000, "at first A but " * 14_000, "A A A " * 34_000)
"""Replies of 200,000 characters that nobody would read; beside them an option of 40,000."""
VERY_LONG = ("A dog, or B, (C) is not the thing that I see here: it's red? " * 640,)


def rate(extractor: Extractor, replies: Sequence[str], seconds: float = 0.5) -> float:
    """Median over five runs of replies per second; the question is prepared once and then cached."""
    rates = []
    for _ in range(5):
        done = 0
        began = time.perf_counter()
        while time.perf_counter() - began < seconds / 5:
            for reply in replies:
                extractor(reply, OPTIONS, LABELS)
            done += len(replies)
        rates.append(done / (time.perf_counter() - began))
    return statistics.median(rates)


def main() -> None:
    kinds = {
        "short": SHORT,
        "prose": PROSE,
        "2,000 characters": LONG,
        "40,000 characters": VERY_LONG,
    }
    print("replies per second".ljust(34), *(kind.rjust(18) for kind in kinds))
    for name, extractor in named_extractors().items():
        print(
            name.ljust(34),
            *(f"{rate(extractor.read, replies):18,.0f}" for replies in kinds.values()),
        )
    for reply in HOSTILE:
        began = time.process_time()
        STANDARD.read(reply, ("A A A " * 7_000, *OPTIONS[1:]), LABELS)
        spent = 1000 * (time.process_time() - began) / (len(reply) / 10_000)
        print(
            f"standard, {reply[:8]!r}... {len(reply):,} characters: {spent:.1f} ms a 10,000 characters"
        )


if __name__ == "__main__":
    main()
