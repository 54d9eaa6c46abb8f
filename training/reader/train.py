"""Learn the weights of the reader: `python training/reader/train.py CLONES [--without-each FOLDER]`.

CLONES holds clones of public repositories as `bench/reading_error.py` fetches them. The reader learns from replies whose
authors published what they extracted (at most so many of each model and task, short ones in part, none twice; labels of
`bench/careful_labels.csv` come first), from replies that people labelled (`bench/real_labels.json`, `tests/replies`,
`training/reader/replies`), and from sentences made of templates. A source is measured with weights that were learnt
without it (`--without-each FOLDER`). Needs torch; takes some minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(Path(__file__).parent)]

from made_statements import made_refusals, made_statements  # noqa: E402

from published_replies import SOURCES as PUBLISHED  # noqa: E402
from published_replies import careful_labels, published_cases  # noqa: E402
from real_sources import LATER_SOURCES, Clone  # noqa: E402
from real_sources import SOURCES as LABELLED  # noqa: E402
from snellen.extraction.features import describe  # noqa: E402
from snellen.extraction.reader import WEIGHTS  # noqa: E402
from snellen.extraction.standard import read_choice, view_answer  # noqa: E402

MOST = {"BLINK": 130, "MathVista": 300, "LogicVista": 300, "ZeroShotCoT": 300, "MMLU-Pro": 60}
MOST_OF_OTHERS = 150
"""Replies of a model in a task that are learnt from; of short ones an eighth as many."""
SHORT = 15
BY_PEOPLE = ("M3CoT", "EventHallusion", "vqa-rad", "benchlmm", "MMMU")
"""Sources with labels of people that are learnt from; the others test the reader."""
READ_BY_JUDGES = ("BLINK", "MathVista", "LogicVista", "MCQ-Robustness")
"""Sources whose authors read replies by a model or by people. Others read them by a pattern: that it finds nothing does not
say that the reply gives no answer."""
OF_REPOSITORY = {repository: name for name, (repository, _) in PUBLISHED.items()}
HANDS = (("awkward", 0.1), ("near", 0.1), ("other", 0.1), ("swaps", 0.3), ("", 0.7))
"""What the name of a file of labelled replies begins with -> what each counts for. Replies written to mislead count
little, so that probabilities are those of real replies."""
PACKAGED = ROOT / "src" / "snellen" / "extraction" / WEIGHTS
MADE = 1400
MADE_REFUSALS = 150
LEAST = 8
"""Replies that a feature must be in."""
PENALTY = 8e-5
SMALLEST = 0.02
"""Weights nearer to 0 are left out."""


class Example(NamedTuple):
    """The features of each option of a reply and of no answer, and which of them is meant."""

    source: str
    """The published source; empty for replies by hands and templates."""
    features: list[dict[str, float]]
    meant: int
    weight: float


def examples(clones: Path) -> Iterator[Example]:
    for source, case, weight in cases(clones):
        meant = len(case["options"]) if case["gold"] is None else case["gold"]
        view = view_answer(
            case["reply"],
            tuple(case["options"]),
            tuple(case["labels"]),
            case.get("finish"),
            case["question"],
        )
        described = describe(
            view.marked,
            view.forms,
            view.statements,
            case["question"],
            case["options"],
            cut=view.cut,
        )
        features = [dict(item) for item in (*described.options, described.none)]
        yield Example(source, features, meant, weight)


def cases(clones: Path) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Labelled replies, with the published source they are of, and what each counts for."""
    yield from published(clones)
    for path in sorted(
        [*ROOT.glob("tests/replies/*.jsonl"), *ROOT.glob("training/reader/replies/*.jsonl")]
    ):
        weight = next(weight for start, weight in HANDS if path.stem.startswith(start))
        for line in path.read_text("utf-8").splitlines():
            case = {"question": "", **json.loads(line)}
            case.setdefault("gold", case.get("expected"))
            is_open = case.get("ambiguous") or case["kind"] == "ambiguous"
            if case["reply"].strip() and not is_open:
                yield "", case, weight
    for case in (*made_statements(MADE), *made_refusals(MADE_REFUSALS)):
        yield "", case, 0.5
    labels = json.loads((ROOT / "bench" / "real_labels.json").read_text("utf-8"))
    for name in BY_PEOPLE:
        repository, read = (LABELLED | LATER_SOURCES)[name]
        sign = "/" if name in LATER_SOURCES else ":"
        for item in read(Clone(clones, repository)):
            label = labels.get(sign.join((name, item["model"], str(item["row"]))), "either")
            if label != "either":
                yield OF_REPOSITORY.get(repository, ""), {**item, "gold": label}, 2.0


def published(clones: Path) -> Iterator[tuple[str, dict[str, Any], float]]:
    labels = careful_labels()
    taken: Counter[tuple[str, ...]] = Counter()
    seen: set[tuple[Any, ...]] = set()
    for case in published_cases(clones):
        reply = case["reply"].strip()
        key = (case["reply"], case["options"])
        key_of_label = (case["source"], case["model"], case["row"])
        is_labelled = key_of_label in labels
        meant = labels[key_of_label] if is_labelled else case["authors"]
        if meant in ("?", "either") or not reply or key in seen:
            continue
        if meant is None and not is_labelled and case["source"] not in READ_BY_JUDGES:
            continue
        if not is_labelled and _contradicts_a_statement(case):
            continue
        task = case["row"].partition(":")[0] if case["source"] == "BLINK" else ""
        most = MOST.get(case["source"], MOST_OF_OTHERS)
        size = "long"
        if len(reply) <= SHORT:
            most = most // 8
            size = "short"
        group = (case["source"], case["model"], task, size)
        if taken[group] < most:
            taken[group] += 1
            seen.add(key)
            yield case["source"], {**case, "gold": meant}, 1.0


def _contradicts_a_statement(case: dict[str, Any]) -> bool:
    """Whether the authors read something else than a reply states. People who labelled such replies sided with the
    statement in five of six."""
    reading = read_choice(case["reply"], case["options"], case["labels"], question=case["question"])
    return reading.confidence == "certain" and reading.choice != case["authors"]


def learn(everything: list[Example]) -> dict[str, float]:
    """Fit a conditional logit with a quadratic penalty by L-BFGS."""
    counted = Counter(
        name
        for example in everything
        for name in {name for item in example.features for name in item}
    )
    numbers = {
        name: number
        for number, name in enumerate(sorted(n for n, c in counted.items() if c >= LEAST))
    }
    columns: dict[str, list[float]] = defaultdict(list)
    for row, example in enumerate(everything):
        for place, item in enumerate(example.features):
            candidate = len(columns["row"])
            columns["row"].append(row)
            if place == example.meant:
                columns["meant"].append(candidate)
            for name, value in item.items():
                if name in numbers:
                    columns["feature"].append(numbers[name])
                    columns["value"].append(value)
                    columns["candidate"].append(candidate)
    feature, candidate, row, meant = (
        torch.tensor(columns[name], dtype=torch.int64)
        for name in ("feature", "candidate", "row", "meant")
    )
    value = torch.tensor(columns["value"], dtype=torch.float32)
    weight = torch.tensor([example.weight for example in everything])
    weights = torch.zeros(len(numbers), requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights], max_iter=150, history_size=10, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        scores = torch.zeros(len(row)).index_add_(0, candidate, weights[feature] * value)
        highest = torch.full((len(everything),), -1e9).scatter_reduce(
            0, row, scores.detach(), "amax"
        )
        totals = torch.zeros(len(everything)).index_add_(0, row, torch.exp(scores - highest[row]))
        log_probabilities = scores[meant] - highest - torch.log(totals)
        total = -(log_probabilities * weight).sum() / weight.sum() + PENALTY * (weights**2).sum()
        total.backward()
        return total

    optimiser.step(loss)
    learnt = weights.detach()
    return {
        name: round(float(learnt[number]), 3)
        for name, number in numbers.items()
        if abs(float(learnt[number])) >= SMALLEST
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument(
        "--without-each",
        type=Path,
        metavar="FOLDER",
        help="write SOURCE.json for each source, learnt without it, instead of the weights of the package",
    )
    parser.add_argument("--to", type=Path, default=PACKAGED)
    given = parser.parse_args()
    torch.set_num_threads(1)
    everything = list(examples(given.clones))
    if given.without_each is None:
        write(learn(everything), given.to, len(everything))
        return
    for source in PUBLISHED:
        others = [example for example in everything if example.source != source]
        write(learn(others), given.without_each / f"{source}.json", len(others))


def write(weights: dict[str, float], path: Path, n_replies: int) -> None:
    text = json.dumps(weights, ensure_ascii=False, sort_keys=True, indent=0, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", "utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    print(f"{path.name}: {n_replies} replies, {len(weights)} weights, {digest}", flush=True)


if __name__ == "__main__":
    main()
