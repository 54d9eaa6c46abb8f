"""The radar of the values of a tag: of MMBench its 20 abilities, several models beside each other."""

from __future__ import annotations

from pathlib import Path

import mmbench_rows
import snellen as sn
from snellen.report.drawing import ChartText
from snellen.report.figures import report_figures
from snellen.report.radar_chart import radar_chart
from snellen.report.reported_runs import prepare_reported_runs

ABILITIES = [f"ability_{number}" for number in range(20)]


def built(folder: Path, abilities: list[str]) -> Path:
    """A benchmark of MMBench's form with two questions of each ability, of which A is right once."""
    table = [
        mmbench_rows.row(2 * place + turn, gold=turn, category=ability)
        for place, ability in enumerate(abilities)
        for turn in (0, 1)
    ]
    folder.mkdir()
    mmbench_rows.write(table, folder / "table.tsv")
    return mmbench_rows.built(folder / "table.tsv").folder


def panels(folder: Path, abilities: list[str]) -> dict[str, str]:
    benchmark = built(folder, abilities)
    models = ["snellen:oracle", "snellen:always-a"]
    results = sn.evaluate(models, str(benchmark), "vanilla", runs=folder / "runs", report=False)
    block = report_figures(prepare_reported_runs(results.runs, results.rows))["tag-radar"]
    return {panel.title: str(panel.drawing) for panel in block.panels}


def test_the_twenty_abilities_of_several_models_are_one_figure(tmp_path: Path) -> None:
    drawn = panels(tmp_path / "many", ABILITIES)
    [figure] = [text for title, text in drawn.items() if title == "l3, generation"]
    assert all(ability in figure for ability in ABILITIES)
    # Always A is right on one of two questions of each ability, the oracle on both.
    assert "snellen:always-a, l3=ability_7" in figure
    assert "snellen:oracle, l3=ability_7" in figure


def test_too_few_or_too_many_values_are_bars_alone(tmp_path: Path) -> None:
    assert not panels(tmp_path / "few", ABILITIES[:4])
    assert not panels(tmp_path / "many", [f"ability_{number}" for number in range(25)])


def test_long_names_of_axes_stay_in_the_chart() -> None:
    names = ["ocr", "physical_property_reasoning", "image_style", "extraordinarilylongword"] * 2
    chart = radar_chart("Accuracy", names, [], [None] * len(names))
    texts = [shape for shape in chart.shapes if isinstance(shape, ChartText)]
    labels = [text for text in texts if text.style.startswith("name")]
    assert {"physical_property_", "reasoning"} <= {label.content for label in labels}
    for label in labels:
        length = 6 * len(label.content)  # the letters of a label are about 6 pixels wide
        if label.style == "name end":
            assert label.x - length >= 0
        elif label.style == "name start":
            assert label.x + length <= chart.width
