"""What a suite's paper settles: protocols of a run that names none, named parts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import small
from snellen.api import evaluate
from snellen.building.benchmark import Benchmark
from snellen.catalogue import declared_file, suites
from snellen.errors import UnknownNameError
from snellen.runs.run_folder import read_manifest


def choices(folder: Path, **facts: object) -> Benchmark:
    return small.built(small.rows(4), folder, **facts)  # type: ignore[arg-type]


def test_a_benchmark_is_asked_as_its_suite_says_by_the_methods_wanted(tmp_path: Path) -> None:
    facts = {"generation": ("instability?m=3",), "likelihood": ("likelihood?m=3",)}
    folders = [
        str(choices(tmp_path / "one", name="one", **facts).folder),
        str(choices(tmp_path / "two", name="two").folder),
    ]
    for method, wanted in {
        "generation": [("instability?m=3",), ("vanilla",)],
        "likelihood": [("likelihood?m=3",), ("likelihood",)],
        "both": [("instability?m=3", "likelihood?m=3"), ("vanilla", "likelihood")],
    }.items():
        results = evaluate("snellen:oracle", folders, method=method, runs=tmp_path, name=method)
        manifest = read_manifest(tmp_path / method)
        assert [use.protocols for use in manifest.benchmarks] == wanted
        # Nothing counts as never asked that its benchmark was not to be asked by.
        assert all(row.estimate.errors == 0 and row.estimate.n for row in results.rows)


def test_protocols_that_are_named_win_over_the_suites_own(tmp_path: Path) -> None:
    one = choices(tmp_path / "one", name="one", generation=("instability?m=3",))
    evaluate("snellen:oracle", str(one.folder), "circular", runs=tmp_path, name="run")
    assert read_manifest(tmp_path / "run").protocols == ("circular",)
    # Going on with other protocols keeps the earlier ones.
    evaluate("snellen:oracle", str(one.folder), runs=tmp_path, name="run")
    assert read_manifest(tmp_path / "run").benchmarks[0].protocols == (
        "circular",
        "instability?m=3",
    )


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(
        UnknownNameError, match="unknown value of method 'likelyhood'; did you mean likelihood"
    ):
        evaluate("snellen:oracle", "eyechart", method="likelyhood")


def test_reform_eval_asks_five_times_and_for_a_caption_once() -> None:
    for spec in suites()["reform-eval"]:
        assert spec.generation == (
            ("vanilla",) if spec.task == "caption" else ("instability?m=5",)
        ), spec.name
        assert spec.likelihood == (() if spec.formulation == "text" else ("likelihood?m=5",)), (
            spec.name
        )


def test_templates_of_the_data_are_used_where_there_are_any(tmp_path: Path) -> None:
    with_own = choices(tmp_path / "own", name="own", instructions=("Answer me.", "Tell me."))
    without = choices(tmp_path / "plain", name="plain")
    folders = [str(with_own.folder), str(without.folder)]
    evaluate(
        "snellen:oracle", folders, "instability?m=2", templates="data", runs=tmp_path, name="run"
    )
    asked = (tmp_path / "run" / "journal-0.jsonl").read_text()
    assert "Answer me.\\n" in asked and "Tell me.\\n" in asked
    assert "Look at the picture and answer the question by choosing one of the options." in asked
    assert read_manifest(tmp_path / "run").templates.startswith("data, else ")


def test_an_unknown_part_of_a_suite_is_met_with_its_parts(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match="unknown part of the suite reform-eval 'cgg'; did you mean cg"
    ):
        evaluate("snellen:oracle", "reform-eval:cgg", runs=tmp_path)


@pytest.mark.parametrize("kind", ["study", "analysis"])
def test_a_name_that_several_suites_have_is_called_what_it_names(
    kind: Literal["study", "analysis"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suite in ("first", "second"):
        folder = tmp_path / suite / ("studies" if kind == "study" else "analyses")
        folder.mkdir(parents=True)
        (tmp_path / suite / "suite.toml").write_text(f'name = "{suite}"\ntitle = "A suite"\n')
        (folder / "mine.toml").write_text("")
    monkeypatch.setenv("SNELLEN_SUITES", str(tmp_path))
    with pytest.raises(
        UnknownNameError, match=f"the {kind} mine is in several suites; use one of first/mine, sec"
    ):
        declared_file(kind, "mine")
