"""Faults of entries that make a number wrong: none in the catalogue, and what a run says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import modern_metric_tables
import modern_tables
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec, entries
from snellen.metrics.declaration import find_metric
from snellen.records import Answer, Sample
from snellen.scoring.answers import open_answers
from snellen.scoring.entry_lint import answer_findings, entry_findings, judge_notice

MODERN = [spec for spec in entries().values() if spec.suite == "modern"]
OF_THEIR_PAPERS = {"aro", "lvlm-ehub", "reform-eval", "tiny-lvlm-ehub", "visdial", "mmbench"}
"""Suites whose metrics are those of their paper, whatever is wrong with them."""
WITHHELD = {
    "modern/st-vqa",
    *(
        f"modern/{name}-test"
        for name in ("docvqa", "infovqa", "mmmu", "textvqa", "vizwiz", "vqav2")
    ),
}
"""Benchmarks whose makers keep the answers."""
TABLES = {**modern_metric_tables.TABLES, **modern_tables.TABLES}


def spec_of(**facts: Any) -> BenchmarkSpec:
    plain = {"name": "mine", "title": "Mine", "formulation": "text"}
    return BenchmarkSpec(**{**plain, "source": SourceSpec("table"), **facts})


def test_no_entry_has_a_fault_that_shows_by_itself() -> None:
    found = []
    for spec in entries().values():
        if spec.suite not in OF_THEIR_PAPERS:
            found += entry_findings(spec)
    assert found == []


@pytest.mark.parametrize("short", [spec.short for spec in MODERN if spec.short in TABLES])
def test_no_entry_compares_letters_as_texts_or_lacks_what_it_is_scored_by(
    short: str, tmp_path: Path
) -> None:
    spec = entries()[f"modern/{short}"]
    tables = modern_tables if short in modern_tables.TABLES else modern_metric_tables
    built = build_benchmark(
        spec.from_hub(), source=tables.write(short, tmp_path / "hub"), to=tmp_path / "built"
    )
    answers = list(open_answers(built.folder).values())
    assert answer_findings(spec, list(built.samples()), answers) == []
    without_reference = not any(answer.texts or answer.options for answer in answers)
    is_judged = any(find_metric(name).computed_over == "judge" for name in spec.metrics)
    assert not without_reference or is_judged or spec.name in WITHHELD


@pytest.mark.parametrize("metrics", [(), ("exact_match",), ("gqa_accuracy", "typed_match")])
def test_free_text_is_not_compared_as_a_whole(metrics: tuple[str, ...]) -> None:
    [finding] = entry_findings(spec_of(metrics=metrics, max_new_tokens=65))
    assert finding.startswith(f"mine: {(metrics or ('exact_match',))[0]} compares the whole reply")
    assert entry_findings(spec_of(metrics=metrics, max_new_tokens=64)) == []


def test_a_group_metric_has_its_groups() -> None:
    metrics = ("typed_match", "same_question_accuracy")
    [finding] = entry_findings(spec_of(metrics=metrics))
    assert 'groups = { question = "TAG" }' in finding
    assert entry_findings(spec_of(metrics=metrics, groups={"question": "number"})) == []
    clustered = SourceSpec("table", {"group": "{scene}"})
    assert entry_findings(spec_of(metrics=metrics, source=clustered)) == []
    # Each question by itself needs none.
    assert entry_findings(spec_of(metrics=("typed_match", "overall_accuracy"))) == []


@pytest.mark.parametrize(("golds", "faults"), [("ABA", 1), (("A", "a cat"), 0), ((), 0)])
def test_letters_go_to_the_choice_reader(golds: tuple[str, ...], faults: int) -> None:
    sample = Sample(benchmark="mine", id="1", question="Which?")
    answers = [Answer(sample_id="1", texts=(gold,)) for gold in golds]
    found = answer_findings(spec_of(), [sample], answers)
    assert len(found) == faults


def test_a_run_says_before_it_asks_that_only_a_judge_gives_the_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = modern_tables.write("mia-bench", tmp_path / "hub")
    built = build_benchmark(
        entries()["modern/mia-bench"].from_hub(), source=source, to=tmp_path / "built"
    )
    asked: list[str] = []

    def count(question: str, images: object) -> str:
        asked.append(question)
        return "a pet"

    _, _, err = small.command(capsys, "run", "snellen:oracle", str(built.folder), "--dry-run")
    assert (
        "modern/mia-bench: only a judge gives its score (mia_bench); without --judge MODEL" in err
    )
    sn.evaluate(count, str(built.folder))
    assert len(asked) == 6


def test_a_run_with_a_judge_says_nothing_of_it() -> None:
    spec = entries()["modern/mia-bench"]
    assert judge_notice(spec, judged=True) == ""
    assert "no number" in judge_notice(spec, judged=False)
    assert judge_notice(entries()["modern/pope"], judged=False) == ""
