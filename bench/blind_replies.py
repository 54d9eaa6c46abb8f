"""How labelled replies are read: `python bench/blind_replies.py FILE... [--list] [--extractor NAME]`.

A file has a JSON object a line: id, kind, question, options, labels, reply, finish, gold (index or null), ambiguous,
and lang where it is not English. Figures are over replies that are not ambiguous. Silently wrong is a choice that the
reader of the reply did not make, the one fault that nothing downstream mends; open is none where there is one.
`held_out/*.jsonl` are in no training.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from snellen.extraction import ExtractedChoice, find_extractor

Case = dict[str, Any]
Outcome = tuple[Case, ExtractedChoice, float]
"""A labelled reply, its reading, and the seconds that took."""


def read_cases(paths: Iterable[Path], extractor: str) -> list[Outcome]:
    outcomes = []
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            case = {"lang": "en", **json.loads(line)}
            began = time.perf_counter()
            reading = find_extractor(extractor).read(
                case["reply"],
                case["options"],
                case["labels"],
                finish=case["finish"],
                question=case["question"],
            )
            outcomes.append((case, reading, time.perf_counter() - began))
    return [outcome for outcome in outcomes if not outcome[0]["ambiguous"]]


def verdict(outcome: Outcome) -> str:
    case, reading, _ = outcome
    if reading.choice == case["gold"]:
        return "right"
    return "open" if reading.choice is None else "wrong"


def row(name: str, outcomes: Sequence[Outcome]) -> str:
    verdicts = [verdict(outcome) for outcome in outcomes]
    counts = [verdicts.count(kind) for kind in ("right", "wrong", "open")]
    shares = "".join(f"{count:>7} {count / max(1, len(verdicts)):>6.1%}" for count in counts)
    return f"{name:<24}{len(verdicts):>6}{shares}"


def table(outcomes: Sequence[Outcome]) -> Iterable[str]:
    yield f"{'':<24}{'n':>6}{'right':>14}{'silently wrong':>14}{'open':>14}"
    yield row("all", outcomes)
    for confidence in ("certain", "likely"):
        yield row(f"read as {confidence}", [o for o in outcomes if o[1].confidence == confidence])
    for field in ("kind", "lang"):
        yield ""
        for value in sorted({outcome[0][field] for outcome in outcomes}):
            yield row(f"{field} {value}", [o for o in outcomes if o[0][field] == value])
    yield ""
    seconds = [outcome[2] for outcome in outcomes]
    yield f"microseconds a reply: median {statistics.median(seconds) * 1e6:.0f}, most {max(seconds) * 1e6:.0f}"


def faults(outcomes: Sequence[Outcome]) -> Iterable[str]:
    for outcome in sorted(outcomes, key=lambda o: (verdict(o), o[0]["kind"], o[0]["id"])):
        case, reading, _ = outcome
        if verdict(outcome) == "right":
            continue
        options = " | ".join(
            f"{label}. {option}"
            for label, option in zip_longest(case["labels"], case["options"], fillvalue="-")
        )
        why = f"{reading.extraction_method}, {reading.confidence}, {reading.detail}"
        cut = " CUT" if case["finish"] == "length" else ""
        yield f"{verdict(outcome)} {case['id']} gold={case['gold']} read={reading.choice} ({why}){cut}"
        yield f"    {options}\n    {case['reply']!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--list", action="store_true", help="print what was not read right")
    parser.add_argument("--extractor", default="standard")
    arguments = parser.parse_args()
    outcomes = read_cases(arguments.files, arguments.extractor)
    print("\n".join(table(outcomes)))
    if arguments.list:
        print("\n".join(faults(outcomes)))


if __name__ == "__main__":
    main()
