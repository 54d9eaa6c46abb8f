"""Results as a model card prints them: the same numbers in a terminal, Markdown and LaTeX."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import modern_tables
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.experiments.results import Results

MODELS = ["snellen:oracle", "snellen:always-a"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))


def test_a_card_has_a_row_for_each_benchmark_and_a_column_for_each_model() -> None:
    results = sn.evaluate(MODELS, ["eyechart/colour", "eyechart/shape"], limit=8, report=False)
    card = results.card()

    assert card.models == ("snellen:oracle", "snellen:always-a")
    assert [row.benchmark for row in card.rows] == ["Colour of a named shape", "Which shape is it?"]
    for row, name in zip(card.rows, ("eyechart/colour", "eyechart/shape"), strict=True):
        assert row.setting == "0-shot, vanilla, 8 of 300 questions"
        for model in MODELS:
            assert row.results[model].estimate.value == results[model][name].value()
    for text in (str(card), card.to_markdown(), card.to_latex().replace("\\%", "%")):
        assert "100.0%" in text and "Colour of a named shape" in text


def test_a_benchmark_without_a_value_has_a_row_that_says_why(tmp_path: Path) -> None:
    source = modern_tables.write("mia-bench", tmp_path / "hub")
    mia_bench = build_benchmark(
        entries()["modern/mia-bench"].from_hub(), source=source, to=tmp_path / "built"
    )
    suite = [str(mia_bench.folder), "eyechart/colour"]
    card = sn.evaluate("snellen:oracle", suite, limit=4, report=False).card()
    rows = {row.benchmark.rstrip("*"): row for row in card.rows}
    assert list(rows) == ["MIA-Bench", "Colour of a named shape"]
    row = "| MIA-Bench"
    [line] = [line for line in card.to_markdown().splitlines() if line.startswith(row)]
    assert "—" in line
    assert "no judge" in card.to_markdown() and "no judge" in str(card)


def test_the_setting_says_what_was_asked_and_how_it_was_scored() -> None:
    results = sn.evaluate(
        "snellen:oracle", "eyechart/shape", "circular", limit=4, templates="snellen"
    )
    circular, accuracy = results.card().rows
    assert circular.setting == "0-shot, circular, prompts snellen, 4 of 300 questions"
    assert accuracy.setting == "0-shot, vanilla, prompts snellen, 4 of 300 questions"


@pytest.mark.parametrize("protocols", ["circular", ["vanilla", "circular"]])
def test_a_card_tells_circular_accuracy_from_that_of_the_first_pass(
    protocols: str | list[str],
) -> None:
    # "A" is right for some questions in the first order, and for none in all orders.
    results = sn.evaluate("snellen:always-a", "eyechart/shape", protocols, limit=40, report=False)
    circular, accuracy = results.card().rows
    assert (circular.metric, accuracy.metric) == ("circular accuracy", "accuracy")
    assert circular.setting == "0-shot, circular, 40 of 300 questions"
    assert accuracy.setting == "0-shot, vanilla, 40 of 300 questions"
    [in_all_orders] = circular.results.values()
    [in_first_order] = accuracy.results.values()
    assert in_all_orders.estimate.value == 0.0
    assert (in_first_order.estimate.value or 0) > 0
    latex = results.card().to_latex()
    assert "circular accuracy & 0-shot, circular, 40 of 300 questions & 0.0" in latex
    sentence = str(results).split("(")[0]
    assert "of the questions correctly in their first option order" in " ".join(sentence.split())


def test_runs_that_asked_in_different_ways_are_in_rows_of_their_own() -> None:
    few = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="few", report=False)
    more = sn.evaluate(
        "snellen:always-a",
        "eyechart/shape",
        limit=9,
        prompt="{question} Say a letter.",
        name="more",
    )
    card = Results([*few.runs, *more.runs]).card()
    assert [(row.setting, list(row.results)) for row in card.rows] == [
        ("0-shot, vanilla, 4 of 300 questions", ["snellen:oracle"]),
        (
            "0-shot, vanilla, a prompt of the run's own, 9 of 300 questions",
            ["snellen:always-a"],
        ),
    ]


def test_the_command_writes_a_card_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="run")
    words = ("card", "runs/run", "-o", "card.md", "-o", "card.tex")
    code, out, _ = small.command(capsys, *words)
    assert code == 0 and "0-shot, vanilla, 4 of 300 questions" in out
    assert Path("card.md").read_text() == results.card().to_markdown()
    assert Path("card.tex").read_text() == results.card().to_latex()

    _, out, _ = small.command(capsys, "card", "runs/run", "--json")
    assert json.loads(out)["benchmark"] == "Which shape is it?"


def test_a_form_that_no_card_has_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="run")
    code, _, err = small.command(capsys, "card", "runs/run", "-o", "card.pdf")
    assert code == 2 and "card.pdf: a card is written as one of .md, .tex" in err


def test_a_card_shows_the_metric_that_is_asked_for_or_refuses_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("my_metrics.py").write_text("def is_short(reply, reference): return 0.5\n")
    sn.evaluate("snellen:oracle", "eyechart/word", limit=4, name="open", report=False)
    sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="options", report=False)
    asked = ("--metric", "my_metrics.py:is_short", "-o", "card.tex")

    code, out, err = small.command(capsys, "card", "runs/open", *asked)
    assert code == 0, err
    assert "is short" in out and "50.0%" in out and "is short" in Path("card.tex").read_text()

    Path("card.tex").unlink()
    code, _, err = small.command(capsys, "card", "runs/options", *asked)
    assert code == 2 and len(err.splitlines()) == 1
    assert "a card has one metric for each benchmark, here accuracy" in err
    assert "snellen report RUN --metric my_metrics.py:is_short" in err
    assert not Path("card.tex").exists()

    code, _, err = small.command(capsys, "card", "runs/open", *asked, "--metric", "anls")
    assert code == 2 and "remove --metric anls" in err
