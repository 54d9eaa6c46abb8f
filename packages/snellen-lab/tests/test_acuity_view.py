"""Pages of `snellen view` on runs of `snellen acuity`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import snellen as sn
from observers import Observer, measured, pool
from snellen import registry
from snellen.report.adaptive_procedures import AdaptiveComparison, AdaptiveProcedure
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest
from snellen.viewing.running import Progress, RunState
from view_runs import serving


def test_a_run_of_placed_questions_shows_thresholds_and_no_share(tmp_path: Path) -> None:
    run = measured(Observer(13.0, name="thirteen"), tmp_path / "runs")
    with serving(tmp_path / "runs", index=tmp_path / "index") as client:
        page = client.get(f"/run?run={run.folder.name}").text
        assert f"<td>{run.thresholds[0].text}</td>" in page and "has no meaning" in page
        assert "Nothing is scored" not in page
        assert (
            'data-label="headline" class="num headline"><span class="none">—'
            in client.get("/").text
        )


def test_a_run_of_a_procedure_that_is_not_installed_is_shown_without_thresholds(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    run = measured(Observer(13.0, name="thirteen"), runs)
    manifest = run.folder / RUN_MANIFEST
    text = manifest.read_text("utf-8")
    manifest.write_text(text.replace('"rule": "acuity"', '"rule": "gone"'), "utf-8")
    assert read_manifest(run.folder).adaptive_rules == ("gone",)
    sn.evaluate("snellen:uniform", pool("letter-size"), limit=12, runs=runs, name="other")
    index = tmp_path / "index"
    with serving(runs, index=index) as client:
        page = client.get(f"/run?run={run.folder.name}").text
        assert "chosen by the procedure" in page and "install the package" in page
        assert "Nothing is scored" not in page
        assert "cannot be updated" not in client.get("/").text
        assert "accuracy" in client.get("/run?run=other").text

    procedure = AdaptiveProcedure(
        measures="levels",
        summarise=lambda scored: [("letters", "level 7")],
        compare=lambda scored: AdaptiveComparison((), ()),
    )
    registry.register("adaptive_procedures", "gone", procedure)
    try:
        with serving(runs, index=index) as client:  # nothing but the procedure is new
            page = client.get(f"/run?run={run.folder.name}").text
    finally:
        del registry._NAMES["adaptive_procedures"]["gone"]
    assert "<td>level 7</td>" in page and "install the package" not in page


def test_a_run_that_places_questions_is_under_way_between_its_rounds_and_promises_no_number(
    tmp_path: Path,
) -> None:
    runs, much_later = tmp_path / "runs", time.time() + 10_000
    states: list[RunState] = []
    pages: list[str] = []

    class Looking(Observer):
        """Asked what becomes of an image, which is when all is answered, it looks at the pages of its own run."""

        def seen_pixels(self, picture: object) -> list[object]:
            [folder] = runs.iterdir()
            states.append(Progress(clock=lambda: much_later).of(folder, read_manifest(folder)))
            pages.append(client.get("/").text)
            return []

    with serving(runs, index=tmp_path / "index") as client:
        run = measured(Looking(13.0, name="looking"), runs)
    asked = len(run.answers[0].right)
    assert [(state.state, state.n_questions_reached, state.total) for state in states] == [
        ("under way", asked, None)
    ]
    assert f"<b>{asked}</b> questions begun" in pages[0] and "<progress" not in pages[0]


def test_without_the_lab_its_run_is_shown_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    run = measured(Observer(13.0, name="thirteen"), runs)
    targets = registry.targets
    monkeypatch.setattr(
        registry,
        "targets",
        lambda group: {} if group == "adaptive_procedures" else targets(group),
    )
    with serving(runs, index=tmp_path / "index") as client:
        page = client.get(f"/run?run={run.folder.name}").text
    assert "install the package snellen-lab: pip install" in page
