"""Threshold and margin of matching by meaning: chosen on one half of the labelled hard replies, shown on the other.

    python bench/semantic.py

Chosen is the pair of most coverage among those whose precision is at least 0.95 with an interval that begins above
0.91 on the first half. Precision: of the options named, how many the reader means. Coverage: of the options meant,
how many are named. Also shown, as the worst case: the traps of docs/evidence/extraction-conformance.md that the rules
leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from snellen.analysis.statistics import wilson
from snellen.extraction import STANDARD, semantic_matching
from snellen.extraction.conformance import conformance_cases, hard_replies
from snellen.extraction.semantic_matching import NearestOption
from snellen.protocols.prompts.role_prompts import shortened

THRESHOLDS = [step / 20 for step in range(4, 17)]
MARGINS = [step / 20 for step in range(9)]
Labelled = list[tuple[NearestOption, int | None]]


def labelled(replies: Sequence[tuple[str, Sequence[str], int | None]]) -> Labelled:
    near = semantic_matching.nearest([(reply, options) for reply, options, _ in replies])
    return list(zip(near, [meant for _, _, meant in replies], strict=True))


def tally(some: Labelled, threshold: float, margin: float) -> tuple[int, int, int]:
    """Right, named, meant."""
    chosen = [(near.chosen(threshold, margin), meant) for near, meant in some]
    named = [(place, meant) for place, meant in chosen if place is not None]
    return (
        sum(place == meant for place, meant in named),
        len(named),
        sum(meant is not None for _, meant in some),
    )


def share(part: int, whole: int) -> str:
    if not whole:
        return "-"
    low, high = wilson(part / whole, whole)
    return f"{part / whole:.2f} [{low:.2f}, {high:.2f}]"


def chosen(some: Labelled) -> tuple[float, float]:
    found = []
    for threshold, margin in product(THRESHOLDS, MARGINS):
        right, named, _ = tally(some, threshold, margin)
        if named and right / named >= 0.95 and wilson(right / named, named)[0] >= 0.91:
            found.append((right, threshold, margin))
    return max(found)[1:]


def main() -> None:
    tuning, held_out = (
        labelled([(one.reply, one.options, one.expected) for one in hard_replies(held_out=half)])
        for half in (False, True)
    )
    traps = labelled(
        [
            (shortened(one.reply), one.options, one.expected)
            for one in conformance_cases()
            if STANDARD.read(one.reply, one.options, one.labels).reason == "no match"
            and shortened(one.reply)
        ]
    )
    print(f"chosen: threshold {chosen(tuning)[0]}, margin {chosen(tuning)[1]}; in use: ", end="")
    print(f"threshold {semantic_matching.THRESHOLD}, margin {semantic_matching.MARGIN}\n")
    print(
        "| threshold | margin | precision | coverage | held out: named | precision | coverage | traps: right of named |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for pair in ((0.5, 0.3), (0.4, 0.2), (0.4, 0.15), (0.3, 0.1), (0.2, 0.05)):
        mine, other, worst = (tally(some, *pair) for some in (tuning, held_out, traps))
        figures = (
            share(mine[0], mine[1]),
            share(mine[0], mine[2]),
            other[1],
            share(*other[:2]),
            share(*other[::2]),
        )
        print(
            f"| {pair[0]} | {pair[1]} | {' | '.join(map(str, figures))} | {worst[0]} of {worst[1]} |"
        )


if __name__ == "__main__":
    main()
