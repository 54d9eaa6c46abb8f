"""What the reader of replies is made of: labelled replies by who wrote them, and a digest of all of them.

A file is a hand: `replies/*.jsonl` here, `tests/replies/*.jsonl`, the conformance cases, and replies made from forms,
whose names begin with "made".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from made_prose import other_things, plain_forms, points
from made_replies import pairs, short_replies, walks

from snellen.extraction import clues
from snellen.extraction.conformance import conformance_cases
from snellen.extraction.full_reading import answers_directly, look_at, stays_open
from snellen.extraction.option_index import index_options
from snellen.extraction.reading import ExtractedChoice

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests" / "replies"
SAMPLED = 500
"""Of every so many-th reply the clues are kept with the reader, for a test that they are still the same."""

Case = dict[str, Any]


def hands() -> dict[str, list[Case]]:
    """The replies that are not ambiguous, by who wrote them."""
    paths = sorted([*(HERE / "replies").glob("*.jsonl"), *TESTS.glob("*.jsonl")])
    written = {
        path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in paths
    }
    written |= {
        "made-pairs": list(pairs()),
        "made-short": list(short_replies()),
        "made-walks": list(walks()),
        "made-plain": list(plain_forms()),
        "made-points": list(points()),
        "made-others": list(other_things()),
        "conformance": list(_conformance()),
    }
    return {
        name: [case for case in cases if not case["ambiguous"]] for name, cases in written.items()
    }


def _conformance() -> Iterator[Case]:
    for case in conformance_cases():
        yield {
            "reply": case.reply,
            "options": case.options,
            "labels": case.labels,
            "question": "",
            "gold": case.expected,
            "finish": "stop",
            "ambiguous": case.open_ok,
        }


def digest(cases: dict[str, list[Case]], names: Sequence[str]) -> str:
    """A digest of all replies and of the names of the clues."""
    used = ("reply", "options", "labels", "question", "gold", "finish")
    lines = [
        [name, *(case[field] for field in used)] for name in sorted(cases) for case in cases[name]
    ]
    return hashlib.sha256(json.dumps([list(names), lines]).encode()).hexdigest()


KINDS = ("direct", "prose")
UNREAD = -1


def looked_at(case: Case) -> tuple[ExtractedChoice | None, tuple[str, ...], clues.Array, list[int]]:
    """What a reply plainly says, else the names of its clues, their values: [options, names], and of each option which
    of the KINDS of readings its would be, or UNREAD."""
    index = index_options(tuple(case["options"]), tuple(case["labels"]))
    view = look_at(case["reply"], index, finish=case["finish"], question=case["question"])
    if view.plain is not None:
        return view.plain, (), clues.np.empty((0, 0)), []
    kinds = [
        UNREAD if stays_open(view.sight, place) else int(not answers_directly(view.sight, place))
        for place in range(index.count)
    ]
    return None, *clues.rows(view.sight), kinds


def sampled(cases: dict[str, list[Case]]) -> list[Case]:
    """Every so many-th reply."""
    return [case for some in cases.values() for case in some][::SAMPLED]
