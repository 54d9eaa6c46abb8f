"""Metrics, judges and extractors of the user: where they are found, and what they can import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import snellen as sn
from snellen.errors import DataError
from snellen.registry import find_registered, register_code

BENCHMARK = "eyechart/word"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def write_code(folder: Path, helper: str) -> None:
    """Write a file with a metric and a judge that imports one module beside it now, and one when it is called."""
    folder.mkdir()
    folder.joinpath(f"{helper}.py").write_text("VALUE = 0.25\n")
    folder.joinpath(f"{helper}_late.py").write_text("VALUE = 0.25\n")
    folder.joinpath("mine.py").write_text(
        f"import {helper}\n"
        "def quarter(reply, references):\n"
        f"    import {helper}_late\n"
        f"    return {helper}.VALUE + {helper}_late.VALUE\n"
        "def judged_quarter(question, reply, reference):\n"
        f"    import {helper}_late\n"
        f"    return {helper}.VALUE + {helper}_late.VALUE\n"
    )


def test_a_metric_in_a_file_imports_its_neighbours(tmp_path: Path) -> None:
    write_code(tmp_path / "code", "helper_of_metric")
    results = sn.evaluate("snellen:oracle", BENCHMARK, limit=4, metrics="code/mine.py:quarter")
    assert results.value("quarter") == 0.5


def test_a_judge_in_a_file_imports_its_neighbours(tmp_path: Path) -> None:
    write_code(tmp_path / "code", "helper_of_judge")
    judge = "code/mine.py:judged_quarter"
    results = sn.evaluate("snellen:oracle", BENCHMARK, limit=4, judge=judge)
    assert results.value("judged_quarter") == 0.5


def test_a_metric_may_be_declared_and_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`@sn.metric` on the function that the package's entry point names: both are the same metric."""
    package = tmp_path / "library"
    metadata = package / "own_colours-1.0.dist-info"
    metadata.mkdir(parents=True)
    metadata.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-colours\nVersion: 1.0\n"
    )
    metadata.joinpath("entry_points.txt").write_text(
        "[snellen.metrics]\ncolour_named = own_colours:colour_named\nlength_named = own_colours:other\n"
    )
    package.joinpath("own_colours.py").write_text(
        "import snellen as sn\n"
        "@sn.metric(title='colour')\n"
        "def colour_named(reply, references):\n"
        "    return 0.75\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(package)])
    results = sn.evaluate("snellen:oracle", BENCHMARK, limit=4, metrics="colour_named")
    assert results.value("colour_named") == 0.75
    assert find_registered("metrics", "colour_named").rows[0].title == "colour"

    def length_named(reply: str, references: tuple[str, ...]) -> float:
        return 0.0

    with pytest.raises(DataError, match="another metric is called length_named"):
        sn.metric(length_named)


def test_a_metric_of_the_entry_that_is_named_again_by_its_file_counts_each_question_once() -> None:
    Path("mine.py").write_text("def fifth(reply, references):\n    return 0.2\n")
    register_code("metrics", "mine.py:fifth")
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(3)]
    built = sn.build(rows, name="sums", no_images=True, metrics=["fifth"])
    results = sn.evaluate("snellen:oracle", str(built.folder), metrics="mine.py:fifth")
    assert {row.estimate.n for row in results.rows if row.metric == "fifth"} == {len(rows)}


def test_a_metric_object_scores_its_row_under_the_name_of_its_variable() -> None:
    Path("ratio.py").write_text(
        "from snellen.plugin_api import Metric, MetricScores, metric_row\n"
        "class LengthRatio(Metric, frozen=True, kw_only=True):\n"
        "    computed_over = 'reply'\n"
        "    def score(self, questions, context):\n"
        "        return MetricScores(question.score('length_ratio', 0.5) for question in questions)\n"
        "LENGTH_RATIO = LengthRatio(description='', rows=(metric_row('length_ratio', low=0.0),))\n"
    )
    results = sn.evaluate("snellen:oracle", BENCHMARK, limit=4, metrics="ratio.py:LENGTH_RATIO")
    assert results.value("LENGTH_RATIO") == 0.5


def test_a_title_in_the_place_of_the_function_is_named() -> None:
    with pytest.raises(DataError, match=r"the title: @sn.metric\(title='nice name'\)"):
        sn.metric("nice name")  # type: ignore[call-overload]
