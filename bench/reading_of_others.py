"""How other harnesses read labelled replies.

    python bench/reading_of_others.py LMMS_EVAL VLMEVALKIT [REPLIES.jsonl ...]

The first two are checkouts. Their own functions run on replies to options with the labels A, B, C ...; a guess that
they would draw at random counts as open. Without files the sets count that measure Snellen's reader.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parity import Peer
from snellen.extraction import find_extractor

REPLIES = Path(__file__).parent.parent / "tests" / "replies"
SETS = ("natural-?.jsonl", "awkward-?.jsonl")
Case = dict[str, Any]
Reader = Callable[[Case], Any]


def readers(lmms: Peer, kit: Peer) -> dict[str, Reader]:
    """Name -> the letter that is read, or something that is none."""
    no_guess = SimpleNamespace(choice=lambda _: None)
    mmmu = lmms.names("lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py", random=no_guess)
    letters = lmms.names("lmms_eval/tasks/_task_utils/mcq_extract.py")
    infer = kit.names("vlmeval/utils/matching_util.py")
    standard = find_extractor("standard")

    def ours(case: Case) -> str | None:
        reading = standard.read(
            case["reply"],
            case["options"],
            case["labels"],
            finish=case["finish"],
            question=case["question"],
        )
        return None if reading.choice is None else case["labels"][reading.choice]

    return {
        "lmms-eval, MMMU": lambda case: mmmu.parse_mmmu_multi_choice_response(
            case["reply"], case["labels"], dict(zip(case["labels"], case["options"], strict=True))
        ),
        "lmms-eval, letters": lambda case: letters.extract_mcq_answer(
            case["reply"], choices=case["labels"]
        ),
        "VLMEvalKit": lambda case: infer.can_infer(
            case["reply"], dict(zip(case["labels"], case["options"], strict=True))
        ),
        "Snellen": ours,
    }


def verdict(read: Any, case: Case) -> str:
    gold = None if case["gold"] is None else case["labels"][case["gold"]]
    named = read if read in case["labels"] else None
    return "right" if named == gold else "open" if named is None else "wrong"


def cases(paths: Sequence[Path]) -> list[Case]:
    found = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    return [
        case
        for case in found
        if not case["ambiguous"] and case["labels"] == list("ABCDEFGH"[: len(case["options"])])
    ]


def main(arguments: Sequence[str]) -> None:
    lmms, kit, *files = arguments
    sets = (
        {"given": [Path(name) for name in files]}
        if files
        else {name: sorted(REPLIES.glob(name)) for name in SETS}
    )
    for name, paths in sets.items():
        some = cases(paths)
        print(f"{name}: {len(some):,} replies")
        for reader, read in readers(Peer(Path(lmms)), Peer(Path(kit))).items():
            counted = Counter(verdict(read(case), case) for case in some)
            shares = "  ".join(
                f"{kind} {counted[kind] / len(some):.1%}" for kind in ("right", "wrong", "open")
            )
            print(f"  {reader:<20}{shares}")


if __name__ == "__main__":
    main(sys.argv[1:])
