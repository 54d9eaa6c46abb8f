"""What each mechanism of reading earns: `python bench/ablate_extraction.py [REPLIES.jsonl ...] [--every N]`.

One mechanism at a time is switched off, and labelled replies are read with the rest; the reader is not trained anew. A
line says how many replies are no longer read as they are labelled, how many are so only now, and how many more and
fewer are misread. Without files the kept sets of tests/replies count, all hands; give a set that nobody has seen to
know what a mechanism earns on replies it was not written for.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import snellen.extraction
from snellen.extraction.standard import read_choice

KEPT = Path(__file__).parent.parent / "tests" / "replies"
Case = dict[str, Any]
Verdict = Literal["right", "wrong", "open"]


def nothing(*_: Any) -> None:
    return None


def no_items(*_: Any) -> list[Any]:
    return []


def first(item: Any, *_: Any) -> Any:
    return item


MECHANISMS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "exact texts": ("full_reading", "exact_option", nothing),
    "what is plainly said": ("full_reading", "_certain", nothing),
    "equals of options": ("option_index", "aliases", no_items),
    "inflected words": ("inflections", "resolved", first),
    "other languages": ("languages", "guess", lambda *_: ()),
    "verdicts": ("statements", "_stated", no_items),
    "denials": ("statements", "_denied", no_items),
    "statements on yes and no": ("clues", "_of_statement", lambda *_: _NO_STATEMENT),
    "contraries": ("propositions", "opposites", lambda *_: 0),
    "statements in another order": ("full_reading", "_order_is_open", lambda *_: False),
    "words without end": ("full_reading", "_has_no_end", lambda *_: False),
    "instructions": ("full_reading", "without_instructions", first),
    "the reader": ("full_reading", "_weighed", lambda *_: _open()),
}
"""Of each the module and the function that is replaced, and by what."""
_NO_STATEMENT = dict.fromkeys(
    ("statement for", "statement turned", "statement to the point", "statement judged"), 0.0
)


def _open() -> Any:
    return importlib.import_module("snellen.extraction.full_reading")._open("no match")


def modules() -> list[Any]:
    package = snellen.extraction
    return [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]


def swap(old: Any, new: Any) -> None:
    """Put one function for another wherever a module of the room has it, and forget what was remembered."""
    for module in modules():
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)
            elif hasattr(value, "cache_clear") and name != "model":
                value.cache_clear()


def verdicts(cases: Sequence[Case]) -> list[Verdict]:
    found: list[Verdict] = []
    for case in cases:
        reading = read_choice(
            case["reply"],
            case["options"],
            case["labels"],
            finish=case["finish"],
            question=case["question"],
        )
        found.append(
            "right"
            if reading.choice == case["gold"]
            else "open"
            if reading.choice is None
            else "wrong"
        )
    return found


def kept_cases(paths: Iterable[Path], every: int) -> list[Case]:
    cases = [
        json.loads(line) for path in sorted(paths) for line in path.read_text("utf-8").splitlines()
    ]
    return [case for case in cases if not case["ambiguous"]][::every]


def ablation(cases: Sequence[Case]) -> Iterable[tuple[str, int, int, int, int]]:
    """Of each mechanism: right readings lost and won, wrong readings won and lost, when it is switched off."""
    whole = verdicts(cases)
    for name, (module, function, neutral) in MECHANISMS.items():
        old = getattr(importlib.import_module(f"snellen.extraction.{module}"), function)
        swap(old, neutral)
        try:
            without = verdicts(cases)
        finally:
            swap(neutral, old)
        pairs = list(zip(whole, without, strict=True))
        yield (
            name,
            sum(a == "right" != b for a, b in pairs),
            sum(a != "right" == b for a, b in pairs),
            sum(a != "wrong" == b for a, b in pairs),
            sum(a == "wrong" != b for a, b in pairs),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1, help="Read every so many-th reply only.")
    given = parser.parse_args(arguments)
    cases = kept_cases(given.files or KEPT.glob("*.jsonl"), given.every)
    whole = verdicts(cases)
    print(
        f"{len(cases):,} replies: {whole.count('right'):,} right, {whole.count('wrong'):,} wrong\n"
    )
    print(f"{'switched off':<30}{'right: lost':>12}{'won':>6}{'wrong: won':>14}{'lost':>6}")
    for name, lost, won, wrong, mended in ablation(cases):
        print(f"{name:<30}{lost:>12}{won:>6}{wrong:>14}{mended:>6}", flush=True)


if __name__ == "__main__":
    main()
