"""ChartQAPro's rule, and its years, from the entry to the number."""

from __future__ import annotations

from pathlib import Path

import pytest

import modern_tables
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.suites.modern.charts import chartqapro_score


@pytest.mark.parametrize(
    ("reply", "truth", "years", "score"),
    [
        # Each is what evaluate_predictions.py of vis-nlp/ChartQAPro (4b422c6) gives.
        ("10.5", "10", ["NO"], 1.0),
        ("10.6", "10", ["NO"], 0.0),
        ("10.6", "10", [], 0.0),
        ("12%", "12", ["NO"], 1.0),
        ("0.01", "0", ["NO"], 0.0),
        ("2015", "2016", ["NO"], 1.0),
        ("2015", "2016", ["YES"], 0.0),
        (" 2016", "2016", ["yes"], 1.0),
        ("Osla", "Oslo", ["NO"], 0.75),
        ("On", "Oslo", ["NO"], 0.0),  # a distance of three quarters
        ("Ostr", "Oslo", ["NO"], 0.0),  # of exactly one half
        ("OSLO.", "Oslo", ["NO"], 1.0),
        ("It is Oslo", "Oslo", ["NO"], 0.0),
        # A list: item by item, and over the longer one.
        ("['12', 'Oslo']", "['12', 'Oslo']", ["NO"], 1.0),
        ("['Oslo', '12']", "['12', 'Oslo']", ["NO"], 0.0),
        ("['12']", "['12', 'Oslo']", ["NO"], 0.5),
        ("['12', 'Oslo', 'Rome']", "['12', 'Oslo']", ["NO"], 2 / 3),
        ("12", "['12']", ["NO"], 1.0),
        ("['2015', '12']", "['2016', '12']", ["YES"], 0.5),
        ("['2015', '12']", "['2016', '12']", ["NO", "YES"], 1.0),
        # Items of a truth without quotes lose their blanks; a reply without quotes is no list of texts.
        ("['NewYork', '3']", "[New York, 3]", ["NO"], 1.0),
        ("[1, 2]", "[1, 2]", ["NO"], 1.0),
        ("[Oslo, Rome]", "[Oslo, Rome]", ["NO"], 0.0),
        ("[" * 3000, "Oslo", ["NO"], 0.0),
        ("", "Oslo", ["NO"], 0.0),
    ],
)
def test_chartqapro_compares_as_its_makers_do(
    reply: str, truth: str, years: list[str], score: float
) -> None:
    assert chartqapro_score(reply, truth, years) == pytest.approx(score)


@pytest.mark.parametrize(
    ("asked_about", "reply", "score"),
    [
        # By their flags in the dataset the third of six answers is a year, and the fifth is not.
        ("number 2", "Horse", 1.0),
        ("number 2", "hors", 0.0),
        ("number 4", "shee", 0.8),
    ],
)
def test_years_of_the_dataset_reach_the_score(
    asked_about: str, reply: str, score: float, tmp_path: Path
) -> None:
    source = modern_tables.write("chartqapro", tmp_path / "hub")
    spec = entries()["modern/chartqapro"].from_hub()
    benchmark = build_benchmark(spec, source=source, to=tmp_path / "built")

    def model(question: str, images: object) -> str:
        return reply if asked_about in question else "none"

    results = sn.evaluate(model, str(benchmark.folder), runs=tmp_path / "runs")
    assert results.value("chartqapro") == pytest.approx(score / 6)
