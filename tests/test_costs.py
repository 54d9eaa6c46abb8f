"""What answers take stands beside how good they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from click.testing import CliRunner

import small
import snellen as sn
from snellen.api import Results
from snellen.cli import cli
from snellen.records import Request, Response, Usage
from snellen.report.cost_tables import cost_tables, on_front
from snellen.report.reported_runs import prepare_reported_runs
from snellen.scoring.request_costs import percentiles


class Costly:
    """Always names one option, and says what it took."""

    kinds = frozenset({"generate"})

    def __init__(self, reply: str, tokens: int) -> None:
        self.name, self.fingerprint = f"costly-{reply}-{tokens}", f"{reply}{tokens}"
        self.reply, self.tokens = reply, tokens

    def generate(self, requests: list[Request], images: Any) -> list[Response]:
        return [
            Response(
                text=f"({self.reply})",
                usage=Usage(self.tokens, 2),
                seconds=0.001 * (1 + int(one.sample_id[1:])),
            )
            for one in requests
        ]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    small.built([row | {"answer": 0} for row in small.rows(20)], tmp_path / "mine")
    return "./mine"


def test_tokens_and_seconds_stand_beside_the_score(mine: str) -> None:
    results = sn.evaluate(Costly("A", 100), mine, "vanilla")
    [table] = cost_tables(prepare_reported_runs(results.runs, results.rows))
    [row] = table.rows
    assert row[5:] == (20, 0, 2000, 40, "0.010", "0.019", "0.020") and "front" not in table.header


@pytest.mark.parametrize("count", [1, 2, 20, 99, 100, 101])
def test_percentiles_are_those_of_a_second_program(count: int) -> None:
    values = [float((7 * i) % 101) for i in range(count)]
    witness = numpy.percentile(values, (50, 95, 99), method="inverted_cdf")
    assert percentiles(values) == tuple(witness)


def test_the_price_and_the_front_of_several_runs_are_in_the_report(mine: str) -> None:
    for number, model in enumerate((Costly("A", 100), Costly("A", 900), Costly("B", 100))):
        sn.evaluate(model, mine, "vanilla", name=str(number))
    folders = [f"runs/{number}" for number in range(3)]
    command = ["report", *folders, "--price", "10,1000", "-o", "all.md", "-o", "all.html"]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    lines = [line for line in Path("all.md").read_text().splitlines() if "0.010" in line]
    # 2,000 tokens at 10 and 40 at 1,000 a million.
    assert [line.split(" | ")[-2:] for line in lines] == [
        ["0.0600", "yes |"],
        ["0.2200", "no |"],
        ["0.0600", "no |"],
    ]
    assert "Quality and cost" in Path("all.html").read_text()


def test_the_front_is_of_points_that_none_beats() -> None:
    points = [(0.9, 5.0), (0.8, 1.0), (0.7, 2.0), (0.9, 5.0)]
    assert [on_front(point, points) for point in points] == [True, True, False, True]


def test_who_counts_no_tokens_has_a_dash_and_the_others_a_front(mine: str) -> None:
    class Uncounted(Costly):
        def generate(self, requests: list[Request], images: Any) -> list[Response]:
            return [Response(text=f"({self.reply})") for _ in requests]

    models = (Costly("A", 100), Costly("B", 900), Uncounted("A", 1))
    runs = [
        sn.evaluate(model, mine, "vanilla", name=str(number)).runs[0]
        for number, model in enumerate(models)
    ]
    results = Results(runs)
    [table] = cost_tables(prepare_reported_runs(results.runs, results.rows))
    assert [row[-1] for row in table.rows] == ["yes", "no", "—"]
    alone = Results(runs[1:])
    [table] = cost_tables(prepare_reported_runs(alone.runs, alone.rows))
    assert [row[-1] for row in table.rows] == ["—", "—"], "nobody to compare with"


def test_a_control_is_no_rival_on_the_front(mine: str) -> None:
    runs = [
        sn.evaluate(Costly("A", n), mine, "vanilla", controls="text", name=str(n)).runs[0]
        for n in (100, 200)
    ]
    results = Results(runs)
    [table] = cost_tables(prepare_reported_runs(results.runs, results.rows))
    assert [row[-1] for row in table.rows] == ["yes", "—", "no", "—"]
