"""Harness error: the score that a reader of replies gives each model, against that of the authors, worst first.

    python bench/reading_error.py CLONES [--fetch] [--sources BLINK EMMA] [--most 1000] [--without FOLDER]

CLONES holds clones of public repositories as OWNER+NAME/repo; `--fetch` makes those that are missing. The rules of
VLMEvalKit, lmms-eval and evalscope are run as their clones have them; what they would draw at random, or send to a judge,
counts as unread. `--without FOLDER` has `BLINK.json` and so on: weights that were learnt without that source.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parity import Peer
from published_replies import SOURCES, TRAINING, Case, published_cases
from real_sources import Clone
from snellen.extraction import reader
from snellen.extraction.standard import read_choice

PEERS = {
    "VLMEvalKit": "open-compass/VLMEvalKit",
    "lmms-eval": "EvolvingLMMs-Lab/lmms-eval",
    "evalscope": "modelscope/evalscope",
}
Rule = Callable[[Case], int | None]


def fetch(clones: Path, repository: str) -> None:
    target = clones / repository.replace("/", "+") / "repo"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        address = f"https://github.com/{repository}"
        subprocess.run(["git", "clone", "--bare", address, str(target)], check=True)


def rules(clones: Path, folder: Path) -> dict[str, Rule]:
    """The peers' own functions, each as a rule from a case to the index of an option."""

    def functions(peer: str, file: str, **given: Any) -> SimpleNamespace:
        text = Clone(clones, PEERS[peer]).read(file)
        target = folder / peer / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        checkout = Peer.__new__(Peer)
        checkout.folder = folder / peer
        return checkout.names(file, **given)

    kit = functions("VLMEvalKit", "vlmeval/utils/matching_util.py")
    letters = functions("lmms-eval", "lmms_eval/tasks/_task_utils/mcq_extract.py")
    scope = functions("evalscope", "evalscope/utils/multi_choices.py")

    def lettered(case: Case) -> tuple[list[str], dict[str, str]]:
        shown = [chr(ord("A") + place) for place in range(len(case["options"]))]
        return shown, dict(zip(shown, case["options"], strict=True))

    def by_kit(case: Case) -> int | None:
        shown, options = lettered(case)
        found = kit.can_infer(case["reply"], options)
        return shown.index(found) if found in shown else None

    def by_letters(case: Case) -> int | None:
        shown, _ = lettered(case)
        found = letters.extract_mcq_answer(case["reply"], choices=shown)
        return shown.index(found) if found in shown else None

    def by_scope(case: Case) -> int | None:
        shown, _ = lettered(case)
        state = SimpleNamespace(
            output=SimpleNamespace(completion=case["reply"]), choices=case["options"]
        )
        found = scope.parse_answers(state)
        return shown.index(next(iter(found))) if len(found) == 1 and found <= set(shown) else None

    return {"VLMEvalKit": by_kit, "lmms-eval": by_letters, "evalscope": by_scope}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--sources", nargs="*", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--most", type=int, default=10**9, help="replies of a model in a source")
    parser.add_argument("--without", type=Path)
    given = parser.parse_args()
    if given.fetch:
        for repository in [*(SOURCES[name][0] for name in given.sources), *PEERS.values()]:
            fetch(given.clones, repository)

    own_weights = reader.weights
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        peers = rules(given.clones, Path(folder))
        for name in given.sources:
            reader.weights = own_weights
            if given.without and name in TRAINING:
                table = json.loads((given.without / f"{name}.json").read_text("utf-8"))
                reader.weights = lambda table=table: table
            for case in published_cases(given.clones, [name]):
                count = counts[name, case["model"]]
                if case["authors"] == "?" and "authors_right" not in case:
                    continue
                if count["n"] < given.most:
                    add(count, case, peers)
    print("\n".join(table_of(counts, list(peers))))


def add(count: Counter[str], case: Case, peers: dict[str, Rule]) -> None:
    reading = read_choice(case["reply"], case["options"], case["labels"], question=case["question"])
    count["n"] += 1
    count["authors"] += case.get("authors_right", case["authors"] == case["gold"])
    count["Snellen"] += reading.choice == case["gold"]
    count["expected"] += reading.probability_of([case["gold"]])
    count["unread"] += reading.choice is None
    count["unsure"] += reading.probability < 0.9
    for peer, rule in peers.items():
        try:
            count[peer] += rule(case) == case["gold"]
        except Exception:
            count[f"{peer} fails"] += 1


def table_of(counts: dict[tuple[str, str], Counter[str]], peers: list[str]) -> list[str]:
    columns = ["Snellen", *peers]
    lines = [
        f"{'source':<12}{'model':<40}{'n':>6}{'authors':>9}" + "".join(f"{c:>12}" for c in columns)
    ]
    rows = []
    for (source, model), count in counts.items():
        if not count["n"]:
            continue
        score = {column: 100 * count[column] / count["n"] for column in ("authors", *columns)}
        error = {column: score[column] - score["authors"] for column in columns}
        rows.append((abs(error["Snellen"]), source, model, count["n"], score["authors"], error))
    rows.sort(reverse=True)
    for _, source, model, n, authors, error in rows:
        errors = "".join(f"{error[column]:>+12.1f}" for column in columns)
        lines.append(f"{source:<12}{model[:38]:<40}{n:>6}{authors:>9.1f}{errors}")
    for column in columns:
        errors = sorted((abs(row[5][column]) for row in rows), reverse=True)
        lines.append(
            f"{column:<12} worst {errors[0]:.1f}, mean {sum(errors) / len(errors):.2f}; within 1.0 point "
            f"{sum(error <= 1 for error in errors)} of {len(errors)}, within 2.0 {sum(error <= 2 for error in errors)}; "
            f"pairs of models in order {kept_order(rows, column):.1%}"
        )
    return lines


def kept_order(rows: list[Any], column: str) -> float:
    """The share of pairs of models, each pair of one source and apart by the authors' score, that keep their order."""
    kept = total = 0
    for index, first in enumerate(rows):
        for second in rows[index + 1 :]:
            if first[1] != second[1] or first[4] == second[4]:
                continue
            total += 1
            measured = (first[4] + first[5][column]) - (second[4] + second[5][column])
            kept += (measured > 0) == (first[4] > second[4])
    return kept / total if total else 1.0


if __name__ == "__main__":
    main()
