"""Pages of `snellen view` on runs that are not of shares of right answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

import small
import snellen as sn
from observers import Observer, measured
from snellen.building.benchmark import Benchmark
from snellen.records import Request
from view_runs import Replying, serving


def test_a_run_of_placed_questions_shows_thresholds_and_no_share(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    run = measured(Observer(13.0, name="thirteen"), tmp_path / "runs")
    with serving(tmp_path / "runs", index=tmp_path / "index") as client:
        page = client.get(f"/run?run={run.folder.name}").text
        assert f"<td>{run.thresholds[0].text}</td>" in page and "says nothing" in page
        assert "Nothing is scored" not in page
        assert 'data-label="headline" class="num headline"><span class="none">—' in client.get("/").text


def half_in_each_order(request: Request) -> int:
    """Right in the first order of the options; of every second question not in the later ones."""
    number = int(request.sample_id[1:])
    return (number + (request.variant.test > 0 and number % 2)) % 4


def as_text(page: str, start: str, end: str) -> str:
    """The words of a part of a page."""
    part = page[page.index(start) :]
    return " ".join(unescape(re.sub("<[^>]+>", " ", part[: part.index(end)])).split())


@pytest.fixture
def turned(tmp_path: Path) -> Path:
    """`once` was asked in one order and in all, `turned` in all alone; the models differ when options are turned."""
    made: Benchmark = small.built(small.rows(8, pictures=8), tmp_path / "made", name="animals")
    models: list[tuple[str, Callable[[Request], int], list[str]]] = [
        ("once", lambda request: int(request.sample_id[1:]) % 4, ["vanilla", "circular"]),
        ("both", half_in_each_order, ["vanilla", "circular"]),
        ("turned", half_in_each_order, ["circular"]),
    ]
    for name, choose, protocols in models:
        sn.evaluate(Replying(name, choose), str(made.folder), protocols, runs=tmp_path / "runs", name=name)
    return tmp_path / "runs"


def test_under_a_circular_protocol_the_number_is_circular_accuracy(turned: Path, tmp_path: Path) -> None:
    with serving(turned, index=tmp_path / "index") as client:
        page = client.get("/run?run=turned").text
        assert "50.0%" in (lead := as_text(page, 'class="lead"', "</p>")) and "circular accuracy under circular" in lead
        assert 'data-label="circular accuracy under circular"' in client.get("/?q=turned").text
        row = as_text(page, 'id="benchmarks"', "</table>")
        assert "animals circular accuracy 50.0%" in row and "100.0%" not in row
        assert "right under every rotation" in as_text(page, 'id="benchmarks"', "All numbers")
        assert re.search(r"100\.0% \[[^]]*\] n=8 first order alone", as_text(page, "All numbers", "</table>"))
        under_vanilla = client.get("/run?run=both").text
        assert "accuracy under vanilla" in as_text(under_vanilla, 'class="lead"', "</p>")
        assert "animals accuracy 100.0%" in as_text(under_vanilla, 'id="benchmarks"', "</table>")
        by_circular = client.get("/run?run=both&protocol=circular").text
        assert "animals circular accuracy 50.0%" in as_text(by_circular, 'id="benchmarks"', "</table>")


@pytest.mark.parametrize("choice", ["unstable", "disagree"])
def test_questions_are_shown_under_the_protocols_that_they_were_chosen_by(
    turned: Path, tmp_path: Path, choice: str
) -> None:
    with serving(turned, index=tmp_path / "index") as client:
        heads = as_text(client.get(f"/questions?{choice}=1").text, "<thead>", "</thead>")
        assert heads.count("circular") == 3 and "vanilla" not in heads
        assert as_text(client.get("/questions").text, "<thead>", "</thead>").count("vanilla") == 2
        everything = client.get(f"/questions?{choice}=1&columns=all").text
        assert as_text(everything, "<thead>", "</thead>").count("vanilla") == 2
