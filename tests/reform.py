"""Miniatures of official layouts, and the way of a benchmark through build, run and score."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import pytest

import small
from snellen.api import Results, evaluate
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import Recipe
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.records import Sample
from snellen.reformulation.sampling import Sampling
from snellen.scoring.answers import open_answers, with_answer_tags
from snellen.verification.questions import LintMaterial

COMPLETE = Recipe(sample=Sampling(), distractors="pool")
"""The complete benchmark; distractors that a model would write are drawn from the source's answers."""
CERTAIN = {"rouge_l", "word_accuracy", "exact_match"}
"""Metrics that are 1 for a reply that is a reference."""
GUESSES = 320
"""By which chance is told to 11 points of four options, half of what a second right option would add."""
SAID = {"subject", "topic", "grade", "key", "subset"}
"""Tags of what the question itself is about, each value of which has one answer in a miniature."""


def made(name: str, source: Path, to: Path, recipe: Recipe = COMPLETE) -> Benchmark:
    """The catalogue's benchmark `reform-eval/NAME`, built from a miniature of its official files."""
    return build_benchmark(
        entries()[f"reform-eval/{name}"], source=source, to=to / name, recipe=recipe
    )


def holds_together(benchmark: Benchmark, runs: Path) -> None:
    """Assert that no tag tells the answer, the oracle scores 100 and the guesser lands on chance, by both methods."""
    samples = list(benchmark.samples())
    assert samples
    no_tag_tells(benchmark)
    oracle = evaluate(
        "snellen:oracle", str(benchmark.folder), _protocols(benchmark, 1), runs=runs, name="oracle"
    )
    questions = sum(len(sample.rounds) for sample in samples)
    asked = _protocols(benchmark, min(40, ceil(GUESSES / questions)))
    guesser = evaluate("snellen:uniform", str(benchmark.folder), asked, runs=runs, name="uniform")
    if benchmark.spec.formulation == "text":
        _is_perfect_on_texts(oracle, benchmark)
        return
    assert _means(oracle, "accuracy") == pytest.approx([1.0] * 2)
    [run] = guesser.runs
    chance, tolerance = _chance(samples, run.distinct_requests - questions)
    # Under likelihood the guesser guesses once a template, which all presentations share.
    generation = _means(guesser, "accuracy", "generation")
    assert generation == pytest.approx([chance], abs=tolerance)


def _protocols(benchmark: Benchmark, m: int) -> list[str]:
    match benchmark.spec.formulation:
        case "text":
            return ["vanilla"]
        case "dialogue":
            return [f"dialogue?m={m}", "dialogue?by=likelihood"]
        case _:
            return [f"instability?m={m}", "likelihood"]


def _is_perfect_on_texts(oracle: Results, benchmark: Benchmark) -> None:
    found = {
        row.metric: row.estimate.value
        for row in oracle.rows
        if row.benchmark == benchmark.name and not row.slice
    }
    certain = CERTAIN & set(benchmark.spec.metrics)
    assert certain
    assert {metric: found[metric] for metric in certain} == dict.fromkeys(certain, 1.0)


def _means(results: Results, metric: str, method: str = "") -> list[float | None]:
    return [
        row.estimate.value
        for row in results.rows
        if row.metric == metric
        and row.benchmark != "*"
        and not row.slice
        and method in ("", row.method)
    ]


def _chance(samples: Iterable[Sample], guesses: int) -> tuple[float, float]:
    """Expected accuracy of the guesser, and four and a half standard errors of what it gets.

    Presentations that ask the same share one guess, so that `guesses` are fewer than presentations.
    """
    shares = [1 / len(turn.options) for sample in samples for turn in sample.rounds]
    mean = sum(shares) / len(shares)
    return mean, 4.5 * sqrt(mean * (1 - mean) / guesses)


def golds(benchmark: Benchmark) -> dict[tuple[str, int], str]:
    """The text of the correct option (or the first reference) of each question, by sample and round."""
    turns = {
        (sample.id, turn): one
        for sample in benchmark.samples()
        for turn, one in enumerate(sample.rounds)
    }
    answers = open_answers(benchmark.folder).values()
    return {
        (gold.sample_id, gold.turn): turns[gold.sample_id, gold.turn].options[gold.options[0]]
        if gold.options
        else gold.texts[0]
        for gold in answers
    }


def scored_samples(benchmark: Benchmark) -> list[Sample]:
    """The samples as scoring sees them: with the tags of their answers."""
    return list(with_answer_tags(benchmark.samples(), open_answers(benchmark.folder)).values())


def scored_tags(benchmark: Benchmark, name: str) -> Counter[str]:
    """How many samples have each value of a tag, or of one of the answers."""
    return Counter(sample.tags[name] for sample in scored_samples(benchmark))


def no_tag_tells(benchmark: Benchmark) -> None:
    """Assert that no tag that a run sees is the answer, or goes with one more often than half of the time by chance."""
    if importlib.util.find_spec("snellen_lab") is None:  # which brings this check
        return
    from snellen_lab.linting.tags import telling_tags

    told = [finding.message for finding in telling_tags(LintMaterial.of(benchmark), unlikely=0.5)]
    assert not [
        message for message in told if not any(f"the tag {name!r} " in message for name in SAID)
    ], told


def refused(name: str, source: Path, to: Path, fault: str) -> None:
    """Assert that the benchmark is refused with one line per fault that matches `fault`, and nothing is left."""
    with pytest.raises(DataError, match=fault):
        made(name, source, to)
    assert not (to / name).exists()


def write_json(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def write_picture(path: Path, colour: int = 0, size: tuple[int, int] = (96, 80)) -> Path:
    """An image of its own colour; JPEG or PNG by the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(small.picture(colour, "PNG" if path.suffix == ".png" else "JPEG", size))
    return path


def broken(path: Path, old: str, new: str) -> None:
    """Replace one place of a text file; it must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
