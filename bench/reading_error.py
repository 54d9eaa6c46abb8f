"""Harness error: the score that a reader of replies gives each model, against a careful person's, worst first.

    python bench/reading_error.py CLONES [--fetch] [--sources BLINK EMMA] [--most 1000] [--without FOLDER]
    python bench/reading_error.py CLONES [--fetch] --unseen

CLONES holds clones of public repositories as OWNER+NAME/repo; `--fetch` makes those that are missing. The rules of
VLMEvalKit, lmms-eval and evalscope are run as their clones have them; what they would draw at random, or send to a judge,
counts as unread. `--without FOLDER` has `BLINK.json` and so on: weights that were learnt without that source. `--unseen`
takes sources that the reader has not learnt from (`unseen_replies`), with the weights of the package.

The careful score is that of the authors' extraction, except where `careful_labels.csv` says what a reply means: labels by
people who saw the question, the options and the reply, and no reading of it. They labelled every reply on which Snellen
and the authors gave different verdicts, for models whose scores differed by .5 points or more, and every one that
Snellen read surely and otherwise than the authors, mixed with replies that both read alike. An empty reply gives
no answer. A reply labelled `either` is left out of all scores of its model. `silent` is the share of replies that
Snellen reads with 90 % or more and otherwise than the careful reading.
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
from published_replies import MMLU, SOURCES, Case, careful_labels, published_cases
from real_sources import Clone
from snellen.extraction import reader
from snellen.extraction.standard import read_choice
from snellen.records import SURE
from unseen_replies import CSQA, UNSEEN

PEERS = {
    "VLMEvalKit": "open-compass/VLMEvalKit",
    "lmms-eval": "EvolvingLMMs-Lab/lmms-eval",
    "evalscope": "modelscope/evalscope",
}
Rule = Callable[[Case], int | None]
LARGE = 200
"""Replies from which on a share of silent errors is counted."""


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
    parser.add_argument("--unseen", action="store_true")
    given = parser.parse_args()
    sources = UNSEEN if given.unseen else {name: SOURCES[name] for name in given.sources}
    if given.fetch:
        published = [repository for repository, _ in sources.values()]
        questions = CSQA if given.unseen else MMLU
        for repository in [*published, questions, *PEERS.values()]:
            fetch(given.clones, repository)

    own_weights = reader.weights
    labels = careful_labels()
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        peers = rules(given.clones, Path(folder))
        for name in sources:
            reader.weights = own_weights
            if given.without:
                table = json.loads((given.without / f"{name}.json").read_text("utf-8"))
                reader.weights = lambda table=table: table
            for case in published_cases(given.clones, [name], sources):
                count = counts[name, case["model"]]
                if case["authors"] == "?" and "authors_right" not in case:
                    continue
                if count["n"] < given.most:
                    add(count, case, labels, peers)
    print("\n".join(table_of(counts, list(peers))))


def add(
    count: Counter[str],
    case: Case,
    labels: dict[tuple[str, str, str], int | str | None],
    peers: dict[str, Rule],
) -> None:
    """Count a reply for each reader; replies that careful people may take either way do not count."""
    authors_right = case.get("authors_right", case["authors"] == case["gold"])
    meaning = labels.get((case["source"], case["model"], case["row"]), case["authors"])
    if not case["reply"].strip():
        meaning = None
    if meaning == "either":
        count["either"] += 1
        return
    careful_right = authors_right if meaning == "?" else meaning == case["gold"]
    reading = read_choice(case["reply"], case["options"], case["labels"], question=case["question"])
    count["n"] += 1
    count["careful"] += careful_right
    count["authors"] += authors_right
    count["Snellen"] += reading.choice == case["gold"]
    count["expected"] += reading.probability_of([case["gold"]])
    if reading.probability < SURE:
        count["unsure"] += 1
    elif meaning == "?":
        count["silent"] += (reading.choice == case["gold"]) != careful_right
    else:
        count["silent"] += reading.choice != meaning
    for peer, rule in peers.items():
        try:
            count[peer] += rule(case) == case["gold"]
        except Exception:
            count[f"{peer} fails"] += 1


def table_of(counts: dict[tuple[str, str], Counter[str]], peers: list[str]) -> list[str]:
    columns = ["Snellen", "expected", "authors", *peers]
    heads = "".join(f"{column:>11}" for column in columns)
    lines = [f"{'source':<12}{'model':<40}{'n':>6}{'careful':>9}{heads}{'unsure':>8}{'silent':>8}"]
    rows = []
    for (source, model), count in counts.items():
        if not count["n"]:
            continue
        score = {
            column: 100 * count[column] / count["n"]
            for column in ("careful", "unsure", "silent", *columns)
        }
        error = {column: score[column] - score["careful"] for column in columns}
        rows.append((abs(error["Snellen"]), source, model, count["n"], score, error))
    rows.sort(key=lambda row: row[0], reverse=True)
    for _, source, model, n, score, error in rows:
        errors = "".join(f"{error[column]:>+11.1f}" for column in columns)
        lines.append(
            f"{source:<12}{model[:38]:<40}{n:>6}{score['careful']:>9.1f}{errors}"
            f"{score['unsure']:>8.1f}{score['silent']:>8.2f}"
        )
    for column in columns:
        errors = sorted((abs(row[5][column]) for row in rows), reverse=True)
        lines.append(
            f"{column:<12} worst {errors[0]:.1f}, mean {sum(errors) / len(errors):.2f}; within 1.0 point "
            f"{sum(error <= 1 for error in errors)} of {len(errors)}, within 2.0 {sum(error <= 2 for error in errors)}; "
            f"pairs of models in order {kept_order(rows, column):.1%}"
        )
    large = [(row[4]["silent"], f"{row[1]}, {row[2]}") for row in rows if row[3] >= LARGE]
    if large:
        worst, model = max(large)
        lines.append(
            f"silently wrong: {worst:.2f} % of the replies of {model}; at most 1.5 % of "
            f"{sum(share <= 1.5 for share, _ in large)} of {len(large)} models with {LARGE} replies"
        )
    return lines


def kept_order(rows: list[Any], column: str) -> float:
    """The share of pairs of models, each pair of one source and apart by the careful score, that keep their order."""
    kept = total = 0
    for index, first in enumerate(rows):
        for second in rows[index + 1 :]:
            if first[1] != second[1] or first[4]["careful"] == second[4]["careful"]:
                continue
            total += 1
            is_better = first[4]["careful"] > second[4]["careful"]
            kept += (first[4][column] > second[4][column]) == is_better
    return kept / total if total else 1.0


if __name__ == "__main__":
    main()
