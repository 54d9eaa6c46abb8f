"""Which letter of its options a model likes, with an interval, wherever options were turned."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from scipy import stats

import snellen as sn
from small import built, command, rows
from snellen.analysis.option_letters import LetterPreference, letter_preferences
from snellen.building.benchmark import Benchmark
from snellen.records import Estimate
from snellen.report.letters import letter_sentences, letter_tables
from snellen.report.reported_runs import prepare_reported_runs

QUESTIONS = 24


def answering(known: int, name: str) -> sn.Scripted:
    """Right on three of four questions from some number on; of the others it always says A."""

    def reply(request: sn.Request) -> str:
        number = int(request.sample_id[1:])
        is_known = number // 4 % known == 0
        return request.variant.labels[request.variant.order.index(number % 4)] if is_known else "A"

    return sn.Scripted(reply, name=name)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> sn.Results:
    folder = tmp_path_factory.mktemp("letters")
    benchmark: Benchmark = built(rows(QUESTIONS, pictures=QUESTIONS), folder / "mine", name="mine")
    protocols = ["vanilla", "circular", "circular?all_passes=true"]
    models = [answering(2, "half"), answering(1, "whole")]
    return sn.evaluate(models, str(benchmark.folder), protocols, runs=folder / "runs")


def preferences(results: sn.Results, run: int = 0) -> dict[tuple[str, str], LetterPreference]:
    found = letter_preferences(results.runs[run].benchmarks)
    return {(letter.protocol, letter.label): letter for letter in found}


def test_questions_that_failed_early_do_not_count_less(results: sn.Results) -> None:
    """Half of the questions are known: A is chosen in 1/2 + 1/2 · 1/4 of the replies and right in 1/4."""
    letters = preferences(results)
    assert {label for _, label in letters} == set("ABCD")
    for protocol in ("vanilla", "circular"):
        liked = letters[protocol, "A"]
        assert (liked.choice_rate.value, liked.correct.value, liked.difference.value) == (
            0.625,
            0.25,
            0.375,
        )
        assert liked.difference.n == QUESTIONS
    turned = letters["circular?all_passes=true", "A"]
    assert (turned.difference.value, turned.difference.n) == (0.375, 4 * QUESTIONS)
    assert all(letter.difference.value == 0 for letter in preferences(results, 1).values())


def test_the_interval_is_of_questions_and_not_of_their_presentations(results: sn.Results) -> None:
    letters = preferences(results)
    gaps = [0.0 if i // 4 % 2 == 0 else (0.0 if i % 4 == 0 else 1.0) for i in range(QUESTIONS)]
    once = letters["circular", "A"].difference
    assert (
        once.stderr == pytest.approx(stats.sem(gaps))
        and once.low is not None
        and 0 < once.low < 0.375
    )
    by_question = [0.0 if i // 4 % 2 == 0 else 0.75 for i in range(QUESTIONS)]
    turned = letters["circular?all_passes=true", "A"].difference
    assert turned.stderr == pytest.approx(statistics.stdev(by_question) / QUESTIONS**0.5)
    assert turned.groups == QUESTIONS


def test_letters_stand_in_reports_and_comparisons_wherever_options_were_turned(
    results: sn.Results, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [table] = letter_tables(prepare_reported_runs(results.runs, results.rows))
    assert {(row[0], row[1]) for row in table.rows} == {
        (run.manifest.model, protocol)
        for run in results.runs
        for protocol in results.runs[0].manifest.protocols
    }
    report = results.report(tmp_path / "report.md").read_text("utf-8")
    assert "Option letters" in report and "| half | circular | A of 4 | 62.5%" in report
    folders = [str(run.folder) for run in results.runs]
    code, printed, _ = command(capsys, "compare", *folders, "--details")
    assert code == 0 and "Option letters" in printed and "37.5 points" in printed


def test_the_verdict_allows_for_the_number_of_letters(results: sn.Results) -> None:
    letters = [preferences(results)["circular", label] for label in "ABCD"]
    liked = letters[0].difference
    assert liked.low is not None and liked.high is not None
    wider = stats.norm.ppf(1 - 0.05 / 8) / stats.norm.ppf(0.975)
    low, high = 0.375 - wider * (0.375 - liked.low), 0.375 + wider * (liked.high - 0.375)
    [sentence] = letter_sentences(letters)
    assert sentence == (
        f"With four options, A is favoured: chosen {100 * low:.1f} to {100 * high:.1f} points more often than it is correct."
    )
    [balanced] = letter_sentences([preferences(results, 1)["circular", label] for label in "ABCD"])
    assert balanced == "With four options, no letter is clearly favoured."
    [table] = letter_tables(prepare_reported_runs(results.runs, ()))
    assert (
        f"half under circular, with four options: A is favoured: chosen {100 * low:.1f} to"
        in table.notes[0]
    )
    shown = {row[2]: row[-1].estimate for row in table.rows if row[:2] == ("half", "circular")}
    assert (shown["A of 4"].low, shown["A of 4"].high) == (pytest.approx(low), pytest.approx(high))


def test_an_interval_that_is_clear_by_itself_alone_is_no_verdict() -> None:
    """D at 0.5 to 31.5 points: at the level for four letters it would reach below 0."""
    absent = Estimate(None, None, None, None, 0)
    margins = {"A": (-0.2, 0.12), "B": (0.03, 0.1), "C": (0.0, 0.1), "D": (0.16, 0.155)}
    letters = [
        LetterPreference(
            "p", 4, label, absent, absent, Estimate(value, None, value - margin, value + margin, 80)
        )
        for label, (value, margin) in margins.items()
    ]
    assert letter_sentences(letters) == [
        "With four options, A is avoided: chosen 4.7 to 35.3 points less often than it is correct."
    ]


def test_questions_with_two_and_with_four_options_are_apart(tmp_path: Path) -> None:
    folders = [
        str(built(rows(12, options=count, pictures=12), tmp_path / name, name=name).folder)
        for name, count in (("two", 2), ("four", 4))
    ]
    results = sn.evaluate("snellen:always-a", folders, "vanilla", runs=tmp_path / "runs")
    letters = letter_preferences(results.runs[0].benchmarks)
    assert [f"{letter.options}{letter.label}" for letter in letters] == [
        "2A",
        "2B",
        "4A",
        "4B",
        "4C",
        "4D",
    ]
    assert [letter.difference.value for letter in letters if letter.label == "A"] == [0.5, 0.75]
    first, second = letter_sentences(letters)
    assert first.startswith("With two options, A is favoured") and "avoided" not in first, (
        "of two one word is enough"
    )
    assert second.startswith("With four options, A is favoured")


def test_hidden_answers_leave_what_was_chosen(tmp_path: Path) -> None:
    questions = [
        {name: value for name, value in row.items() if name != "answer"} for row in rows(8)
    ]
    benchmark = built(questions, tmp_path / "hidden", name="hidden")
    results = sn.evaluate(
        answering(2, "half"), str(benchmark.folder), "circular", runs=tmp_path / "runs"
    )
    liked = preferences(results)["circular", "A"]
    assert liked.choice_rate.value is not None and liked.difference.value is None
    assert (
        letter_sentences([liked]) == []
        and "favour" not in letter_tables(prepare_reported_runs(results.runs, ()))[0].notes[0]
    )
