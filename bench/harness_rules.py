"""Compares the rules of other harnesses as `reconcile` knows them with the harnesses' own functions, on published replies.

    python bench/harness_rules.py CLONES [--each 400] [--examples 3]

CLONES has the harnesses and the repositories with replies, as OWNER+NAME/repo. The functions of the harnesses are
taken out of their files and run as they are; a guess that one would draw at random counts as no option.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parity import Peer
from published_replies import SOURCES, published_cases
from real_sources import Clone
from snellen.interchange.harness_rules import RULES

Case = dict[str, Any]
Reader = Callable[[Sequence[Case]], list[str | None]]
"""Cases -> the label that is read in each; None for no option."""

FILES = {
    "vlmevalkit": ("open-compass/VLMEvalKit", "vlmeval/utils/matching_util.py"),
    "mmmu": ("EvolvingLMMs-Lab/lmms-eval", "lmms_eval/tasks/_task_utils/mmmu_mcq_utils.py"),
    "lmms-eval": ("EvolvingLMMs-Lab/lmms-eval", "lmms_eval/tasks/_task_utils/mcq_extract.py"),
    "scienceqa": ("EvolvingLMMs-Lab/lmms-eval", "lmms_eval/tasks/scienceqa/utils.py"),
    "evalscope": ("modelscope/evalscope", "evalscope/utils/multi_choices.py"),
    "lm-eval": ("EleutherAI/lm-evaluation-harness", "lm_eval/filters/extraction.py"),
}
"""Rule -> the harness, and its file with the rule."""


def functions(clones: Path, repository: str, file: str) -> SimpleNamespace:
    """The functions of a harness's file, in which a random guess is no option."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / file
        copy.parent.mkdir(parents=True)
        copy.write_text(Clone(clones, repository).read(file))
        no_guess = SimpleNamespace(choice=lambda _: None)
        return Peer(Path(folder)).names(file, random=no_guess)


def readers(clones: Path) -> Mapping[str, Reader]:
    """Rule -> what its harness reads in a case."""
    peers = {rule: functions(clones, *place) for rule, place in FILES.items()}

    def vlmevalkit(case: Case) -> str | None:
        read = peers["vlmevalkit"].can_infer(case["reply"], by_label(case))
        return read or None

    def mmmu(case: Case) -> str | None:
        parse = peers["mmmu"].parse_mmmu_multi_choice_response
        return parse(case["reply"], case["labels"], by_label(case))

    def lmms_eval(case: Case) -> str | None:
        return peers["lmms-eval"].extract_mcq_answer(case["reply"], case["labels"]) or None

    def scienceqa(case: Case) -> str | None:
        verdict = peers["scienceqa"].sqa_process_results
        right = [
            label
            for place, label in enumerate(case["labels"])
            if verdict({"choices": case["options"], "answer": place}, [case["reply"]]) == EXACT
        ]
        return right[0] if right else None

    def evalscope(case: Case) -> str | None:
        state = SimpleNamespace(choices=case["options"])
        read = peers["evalscope"].parse_answers(state, completion=case["reply"])
        return next(iter(read), None)

    def lm_eval(cases: Sequence[Case]) -> list[str | None]:
        replies = [[case["reply"]] for case in cases]
        # One call for all: each makes a table of all of Unicode.
        filtered = choice_filter.apply(replies, [{"choices": case["options"]} for case in cases])
        return [labels[0].strip("()") for labels in filtered]

    choice_filter = peers["lm-eval"].MultiChoiceRegexFilter(
        regex_pattern=r"(\([A-Z]\))", group_select=-1, ignore_case=True, ignore_punctuation=True
    )  # as the tasks of BBH, MMLU and GPQA that generate
    return {
        "vlmevalkit": one_by_one(vlmevalkit),
        "mmmu": one_by_one(mmmu),
        "lmms-eval": one_by_one(lmms_eval),
        "scienceqa": one_by_one(scienceqa),
        "evalscope": one_by_one(evalscope),
        "lm-eval": lm_eval,
    }


def one_by_one(read: Callable[[Case], str | None]) -> Reader:
    return lambda cases: [read(case) for case in cases]


EXACT = {"exact_match": 1.0}


def by_label(case: Case) -> dict[str, str]:
    return dict(zip(case["labels"], case["options"], strict=True))


def letter_cases(clones: Path, each: int) -> list[Case]:
    """Replies to options with the labels A, B, C ...: so many of each source, spread over its models and rows."""
    by_source: dict[str, list[Case]] = defaultdict(list)
    for case in published_cases(clones, SOURCES):
        letters = [chr(ord("A") + place) for place in range(len(case["options"]))]
        if case["reply"].strip():
            by_source[case["source"]].append({**case, "labels": letters})
    chosen: list[Case] = []
    for cases in by_source.values():
        step = max(1, len(cases) // each)
        chosen += cases[::step][:each]
    return chosen


def ours(rule: str, case: Case) -> str | None:
    place = RULES[rule](case["reply"], case["options"], case["labels"])
    return None if place is None else case["labels"][place]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--each", type=int, default=400)
    parser.add_argument("--examples", type=int, default=3)
    chosen = parser.parse_args(arguments)
    cases = letter_cases(chosen.clones, chosen.each)
    print("| rule | replies | options read by the harness | disagreements |\n|---|---|---|---|")
    examples: list[str] = []
    for rule, read in readers(chosen.clones).items():
        differing: list[str] = []
        count = 0
        for case, label in zip(cases, read(cases), strict=True):
            theirs = label if label in case["labels"] else None
            count += theirs is not None
            read_here = ours(rule, case)
            if read_here != theirs:
                reply = case["reply"][-160:]
                differing.append(f"{rule}: harness {theirs}, Snellen {read_here}: {reply!r}")
        print(f"| {rule} | {len(cases):,} | {count:,} | {len(differing):,} |")
        examples += differing[: chosen.examples]
    print(*examples, sep="\n")


if __name__ == "__main__":
    main()
