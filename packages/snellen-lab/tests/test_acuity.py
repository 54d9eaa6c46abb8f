"""Thresholds through the front door: simulated observers whose psychometric functions are known."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import snellen as sn
from acuity import declared
from observers import Observer, measured, placed, pool
from servers import broken, start_server
from snellen.building.benchmark import Benchmark
from snellen.cli import cli, main
from snellen.errors import DataError, StoreError, UnknownNameError
from snellen.report.drawing import ChartText
from snellen.runs.run_progress import RunProgress
from snellen.runs.spec import ScoringSpec
from snellen.scoring.run_scoring import score_run
from snellen_lab import measure_acuity
from snellen_lab.acuity import parameter_grid, posterior
from snellen_lab.acuity.acuity_run import AcuityRun, read_acuity, threshold_differences
from snellen_lab.acuity.card import acuity_page
from snellen_lab.acuity.curve_chart import curve_panels
from snellen_lab.acuity.prescription import prescription, prescription_line
from snellen_lab.acuity.thresholds import Ideal, LevelScale, threshold_of
from snellen_lab.acuity.wall_chart import LINES, line_read, wall_charts


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> tuple[AcuityRun, Observer]:
    """A run of one whose threshold is 12 px, with whom was asked."""
    observer = Observer(12.0, name="same")
    return measured(observer, tmp_path_factory.mktemp("twelve")), observer


def spoken(*words: str) -> Any:
    return CliRunner().invoke(cli, ["acuity", *words])


# --- thresholds --------------------------------------------------------------------------------------------------


def test_a_run_asks_and_finds_what_is_placed_and_answered_in_memory(
    twelve: tuple[AcuityRun, Observer],
) -> None:
    """So most tests here do without a run."""
    run, observer = twelve
    [in_run], [in_memory] = run.answers, placed(observer).answers
    assert in_run.right == in_memory.right and len(in_run.right) == 48
    assert run.thresholds == placed(observer).thresholds


def test_thresholds_are_recovered_and_their_intervals_cover_them() -> None:
    """How often they do is counted by bench/acuity.py; of these 12 at most two may miss."""
    curves = [(6.0, 0.5, 0.0), (14.0, 1.0, 0.02), (30.0, 1.5, 0.05), (80.0, 0.7, 0.0)]
    covered = []
    for true, width, lapse in curves:
        found = [placed(Observer(true, width, lapse, seed)).thresholds[0] for seed in range(3)]
        assert all(
            one.verdict == "threshold" and one.trials == 48 and not one.notes for one in found
        )
        covered += [one.low is not None and one.low <= true <= (one.high or 160) for one in found]
        middle = sorted(one.value or 0 for one in found)[1]
        assert middle == pytest.approx(true, rel=0.15)
        assert sum(one.slope.low <= width <= one.slope.high for one in found) >= 2
        assert all(one.lapse.low <= max(lapse, 0.01) <= one.lapse.high for one in found)
        assert all(one.guess.low < 0.25 < one.guess.high for one in found)
    assert sum(covered) >= 10


def test_a_test_whose_smaller_levels_are_easier_is_measured_alike() -> None:
    """Blur: what is still seen is to the left of the threshold."""
    blurred = Observer(4.0, name="blurred", sees=lambda level: 0.98 if level < 4 else 0.25)
    [found] = placed(blurred, "blur").thresholds
    assert found.value == pytest.approx(4, rel=0.25)
    assert (found.low or 99) >= (found.value or 0) >= (found.high or 0)
    assert "0.98" not in found.text and found.text.endswith("]")


@pytest.mark.parametrize("seed", range(6))
def test_chance_throughout_gives_a_bound_and_no_threshold(seed: int) -> None:
    run = placed(Observer(1, seed=seed, sees=lambda level: 0.25))
    [found] = run.thresholds
    assert (found.verdict, found.value, found.low, found.high) == ("sees none", None, None, None)
    assert found.text == "not even 160 px"
    assert prescription(run) == "cannot tell letters of even 160 px."


def test_who_finds_nothing_in_four_of_ten_pictures_however_easy_has_its_threshold_where_it_finds_half_as_many() -> (
    None
):
    """An engine that says nothing where it finds nothing: 12 answers at each level, as many right as expected."""
    test = declared("letter-size")
    rises = {
        level: 1 / (1 + math.exp(-parameter_grid.STEEPNESS * math.log2(level / 12)))
        for level in test.levels
    }
    pairs = [
        (level, n < round(12 * 0.6 * rise)) for level, rise in rises.items() for n in range(12)
    ]
    silent = sum(not is_right for _, is_right in pairs)
    found = threshold_of(test, "", "generation", pairs, 0.25, silent=silent)
    assert found.value == pytest.approx(12, rel=0.05) and (found.low or 0) < 12 < (found.high or 0)
    assert found.guess.high < 0.1 and found.lapse.low < 0.4 < found.lapse.high
    guessing = threshold_of(
        test, "", "generation", pairs, 0.25
    )  # had it named a wrong one each time
    assert (guessing.value or 160) > 13


def test_wrong_answers_without_an_option_tell_how_often_one_guesses() -> None:
    grid = LevelScale.of(declared("letter-size")).posterior((), 0.25, silent=1).grid
    logs = grid.silence_log_likelihood(3, 2).reshape(grid.shape[1:])[0, 0]
    for guess, log in zip(grid.guesses, logs, strict=True):
        names = min(
            guess / 0.25, 0.999
        )  # an option, where nothing is seen: the right one in one of four
        silent, wrong = 1 - names, names * 0.75
        assert log == pytest.approx(
            3 * math.log(silent / (silent + wrong)) + 2 * math.log(wrong / (silent + wrong)),
            rel=1e-4,
        )


def test_perfect_throughout_gives_a_bound_and_no_threshold() -> None:
    run = placed(Observer(1, sees=lambda level: 1.0))
    [found] = run.thresholds
    assert (found.verdict, found.value, found.text) == ("sees all", None, "sees all, to 2.5 px")
    assert prescription(run) == "sees letters of even 2.5 px."
    assert found.trials < 48, "what is known early is not asked on"


def test_a_level_that_is_read_worse_than_harder_ones_is_said() -> None:
    """A tile border: letters of 40 to 64 px are cut."""

    def cut(level: float) -> float:
        return 0.25 if level < 6 or 40 <= level <= 64 else 1.0

    runs = [placed(Observer(6, seed=seed, sees=cut), budget=96) for seed in range(6)]
    noted = [run for run in runs if run.thresholds[0].notes]
    assert len(noted) >= 3
    note = noted[0].thresholds[0].notes[0]
    level = float(note.partition(" at ")[2].partition(" px")[0])
    assert 40 <= level <= 64 and note.startswith("the curve does not only rise")
    assert "does not only rise" in prescription(noted[0]) and "does not only rise" in acuity_page(
        noted
    )


@pytest.mark.parametrize("kind", ["step", "notch"])
def test_a_curve_that_is_not_the_fitted_one_is_covered_and_a_notch_is_said(kind: str) -> None:
    """Twenty answers at each level; intervals of the logistic curve held 75 of 100 thresholds."""
    test = declared("letter-size")
    scale = LevelScale.of(test)
    x = np.array([scale.x(level) for level in scale.levels])
    rng = np.random.default_rng(3)
    held = 0
    said = 0
    for _ in range(24):
        threshold = rng.uniform(x[len(x) // 4], x[3 * len(x) // 4])
        rise = (x >= threshold).astype(float)
        if kind == "notch":
            rise = 1 / (1 + np.exp(-5.9 * (x - threshold)))
            rise = np.where((x > threshold + 0.8) & (x < threshold + 1.8), rise / 2, rise)
        answers = [
            (level, bool(is_right))
            for level, share in zip(scale.levels, 0.25 + 0.74 * rise, strict=True)
            for is_right in rng.random(20) < share
        ]
        found = threshold_of(test, "b", "generation", answers, 0.25)
        low = -np.inf if found.low is None else scale.x(found.low)
        high = np.inf if found.high is None else scale.x(found.high)
        held += low <= threshold <= high
        said += any(note.startswith("the curve does not fit") for note in found.notes)
    assert held >= 20
    assert said >= 16 if kind == "notch" else said <= 4


def test_by_likelihood_and_by_generation_the_same_choices_give_the_same_threshold(
    tmp_path: Path, twelve: tuple[AcuityRun, Observer]
) -> None:
    run = measured(Observer(12.0), tmp_path, method="both")
    by_method = {found.method: found for found in run.thresholds}
    assert set(by_method) == {"generation", "likelihood"}
    assert by_method["generation"].value == by_method["likelihood"].value
    assert "letter-size (likelihood)" in acuity_page([run])
    said = prescription_line(run)
    assert said.startswith(f"{run.model}, by generation and likelihood: needs")
    assert said.count("px) (by generation)") == said.count("px) (by likelihood)") == 1
    assert [panel.title for panel in curve_panels([run])] == [
        "letter-size (generation)",
        "letter-size (likelihood)",
    ]
    by_likelihood = measured(Observer(12.0, name="alone"), tmp_path, method="likelihood")
    [alone] = by_likelihood.thresholds
    assert alone.method == "likelihood" and alone.value == by_method["likelihood"].value
    together = [twelve[0], by_likelihood]
    assert [panel.title for panel in curve_panels(together)] == ["letter-size"], (
        "each model has a method of its own"
    )
    page = acuity_page(together)
    assert page.count(", n=48, by likelihood") == 1
    assert (
        page.count("<li>same, by generation: needs")
        == page.count("<li>alone, by likelihood: needs")
        == 1
    )
    assert page.count("Three levels are distinguished") == 1, (
        "of the size needed, the threshold and the mark"
    )


@pytest.mark.parametrize(
    "row", json.loads(Path(__file__).with_name("psignifit.json").read_text("utf-8"))
)
def test_psignifit_finds_the_same_in_the_same_answers(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python bench/acuity.py --psignifit` writes its means and 95 % intervals, of four simulated observers in
    `letter-size` (psignifit 4.3, 4AFC, logistic). It takes a guess rate of exactly a quarter for granted."""
    monkeypatch.setattr(parameter_grid, "GUESSES", {1.0: 1.0})
    scale = LevelScale.of(declared("letter-size"))
    grid = parameter_grid.ParameterGrid([scale.x(level) for level in scale.levels], 0.25)
    known = posterior.Posterior(grid, row["right"], [row["asked"]] * len(scale.levels))
    value, low, high = row["threshold"]
    assert known.threshold == pytest.approx((value, low, high), abs=0.16)
    assert known.threshold.value == pytest.approx(value, abs=0.06)
    assert known.width.low < row["width"][0] < known.width.high
    assert known.lapse.value == pytest.approx(row["lambda"][0], abs=0.03)


# --- asking ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies_after", [10, 30])
def test_an_interrupted_measurement_goes_on_to_the_very_same_result(
    dies_after: int, tmp_path: Path, twelve: tuple[AcuityRun, Observer]
) -> None:
    expected, whole = twelve
    with pytest.raises(KeyboardInterrupt):
        measured(Observer(12.0, name="same", dies_after=dies_after), tmp_path)
    going_on = Observer(12.0, name="same")
    assert measured(going_on, tmp_path).thresholds == expected.thresholds
    assert max(Counter(going_on.asked).values()) == 1 and len(going_on.asked) < len(whole.asked)
    again = Observer(12.0, name="same")
    assert measured(again, tmp_path).thresholds == expected.thresholds and not again.asked


def test_the_order_of_answers_does_not_matter(
    tmp_path: Path, twelve: tuple[AcuityRun, Observer]
) -> None:
    forwards, _ = twelve
    backwards = measured(Observer(12.0, name="same", backwards=True), tmp_path)
    assert forwards.thresholds == backwards.thresholds
    [journal] = backwards.folder.glob("journal-*.jsonl")
    lines = journal.read_text("utf-8").splitlines()
    random.Random(1).shuffle(lines)
    journal.write_text("".join(line + "\n" for line in lines), "utf-8")
    assert read_acuity(score_run(backwards.folder, ScoringSpec())).thresholds == forwards.thresholds


def test_a_budget_is_kept_and_shared_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    tests = [pool("letter-size"), pool("crowding"), pool("place")]
    observer = Observer(12.0)
    measure_acuity(observer, tests, runs=str(tmp_path), budget=30)
    asked = Counter(sample.partition("-size")[0].partition("-")[0] for sample in observer.asked)
    assert 30 - len(tests) < len(observer.asked) <= 30 and asked["place"] == 10
    more = Observer(12.0)
    [larger] = measure_acuity(more, tests, runs=str(tmp_path), budget=60)
    assert not set(more.asked) & set(observer.asked)
    assert 60 - len(tests) < len(observer.asked) + len(more.asked) <= 60
    assert sum(share.trials for share in larger.fields["acuity/place"]) == 20
    states: list[RunProgress] = []
    [smaller] = measure_acuity(
        Observer(12.0), tests, runs=str(tmp_path), budget=30, progress=states.append
    )
    asked_before = len(observer.asked) + len(more.asked)
    assert smaller.thresholds == larger.thresholds
    assert (states[-1].done, states[-1].total, states[-1].requests) == (
        asked_before,
        asked_before,
        0,
    )


def test_what_an_early_end_leaves_of_a_budget_goes_to_other_tests() -> None:
    """Sizes begin at 2.5 px, where all is seen; contrasts end at 0.8."""
    sharp_and_dim = Observer(
        1, sees=lambda level: 1.0 if level > 1 else 0.25 + 0.7 / (1 + (0.05 / level) ** 4)
    )
    sizes, contrasts = placed(sharp_and_dim, "letter-size", "contrast", budget=100).thresholds
    assert sizes.verdict == "sees all" and sizes.trials < 30
    assert (
        contrasts.verdict == "threshold"
        and contrasts.trials > 60
        and 98 <= sizes.trials + contrasts.trials <= 100
    )
    sharp, sharper = placed(
        Observer(1, sees=lambda level: 1.0), "letter-size", "crowding", budget=200
    ).thresholds
    assert sharp.trials + sharper.trials < 60 and sharp.verdict == sharper.verdict == "sees all"


def test_a_budget_that_is_too_small_is_refused_with_the_least_that_will_do() -> None:
    with pytest.raises(
        DataError,
        match="budget 7: 2 tests need 12 questions at least, 6 each; raise it or name fewer",
    ):
        measure_acuity(Observer(12.0), [pool("letter-size"), pool("crowding")], budget=7)


def test_what_is_no_psychometric_test_or_is_asked_more_than_once_is_refused(
    questions: Benchmark,
) -> None:
    with pytest.raises(
        DataError, match=r"is not a psychometric test; `snellen list acuity` shows them"
    ):
        measure_acuity(Observer(12.0), str(questions.folder))
    with pytest.raises(
        DataError, match="circular: a threshold needs questions that are asked once each"
    ):
        measure_acuity(Observer(12.0), pool("letter-size"), protocols="circular")
    with pytest.raises(DataError, match="set budget instead"):
        measure_acuity(Observer(12.0), pool("letter-size"), limit=20)
    with pytest.raises(UnknownNameError, match=r"did you mean.*letter-size"):
        measure_acuity(Observer(12.0), "letter-sise")


def test_a_run_begun_with_other_pictures_is_refused_in_one_line(tmp_path: Path) -> None:
    """As with the pools of 12 questions a level, which have 24 now."""
    larger = sn.build(
        "acuity/place", to=tmp_path / "larger", params={"side": 180, "exemplars": 1}
    ).folder
    measured(
        Observer(1, name="cells", sees=lambda cell: 1.0), tmp_path, "place", name="begun", budget=6
    )
    lines: list[str] = []
    with pytest.raises(
        StoreError,
        match=r"used version \w+ of acuity/place, but the current build is version \w+; choose another name=",
    ):
        measure_acuity(
            Observer(1, name="cells"),
            str(larger),
            runs=tmp_path,
            name="begun",
            announce=lines.append,
        )
    assert lines == []


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_prints_bounds_and_a_line_and_writes_the_card(tmp_path: Path) -> None:
    outcome = spoken(
        "snellen:oracle", "snellen:uniform", "--test", "shape-contrast", "--card", "card.html"
    )
    assert outcome.exit_code == 0, outcome.output
    assert "sees all, to 0.004237" in outcome.output and "not even 0.9153" in outcome.output
    assert (
        "snellen:oracle, by generation: sees shapes of a contrast of even 0.004237"
        in outcome.output
    )
    assert "card: card.html" in outcome.output
    page = (tmp_path / "card.html").read_text("utf-8")
    assert page.count("snellen:uniform") > 3 and "<polyline" in page


def test_json_has_a_line_for_each_threshold_map_and_difference() -> None:
    tests = ("--test", pool("shape-contrast"), "--test", pool("place"))
    outcome = spoken("snellen:oracle", "snellen:uniform", *tests, "--json")
    records = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith("{")]
    assert Counter(record["kind"] for record in records) == {
        "threshold": 2,
        "places": 2,
        "difference": 1,
    }
    first, *_, difference = records
    assert (first["verdict"], first["value"], first["test"]) == ("sees all", None, "shape-contrast")
    assert (
        len(first["points"]) == 17
        and sum(point["asked"] for point in first["points"]) == first["asked"]
    )
    assert (difference["better"], difference["difference"]) == ("snellen:oracle", None)


def test_progress_counts_what_is_asked_at_most_and_not_the_pool(tmp_path: Path) -> None:
    states: list[RunProgress] = []
    run = measured(Observer(13.0, name="thirteen"), tmp_path, progress=states.append)
    assert {state.total for state in states} == {48} and states[-1].done == run.thresholds[
        0
    ].trials <= 48


def test_a_forecast_asks_nothing(tmp_path: Path) -> None:
    tests = ("--test", pool("shape-contrast"), "--test", pool("place"))
    words = ("snellen:uniform", *tests, "--dry-run", "--price", "1,1")
    assert "192 requests to send" in spoken(*words).output  # 48 and 144
    limited = spoken(*words, "--budget", "51").output
    assert "51 requests to send" in limited and "at the price given" in limited
    assert not list(tmp_path.glob("runs/*"))


def test_failed_requests_end_with_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        start_server(script=[broken(400, times=99)]) as server,
        pytest.raises(SystemExit) as stopped,
    ):
        main(
            [
                "acuity",
                f"openai:broken@{server.url}",
                "--test",
                pool("shape-contrast"),
                "--budget",
                "6",
            ]
        )
    assert stopped.value.code == 3 and "6 of 6 requests failed" in capsys.readouterr().err


def test_compare_reads_thresholds_of_runs_and_says_which_model_sees_better(tmp_path: Path) -> None:
    coarse = measured(Observer(24.0, name="coarse"), tmp_path)
    fine = measured(Observer(8.0, name="fine"), tmp_path)
    compared = CliRunner().invoke(cli, ["compare", str(coarse.folder), str(fine.folder), "--json"])
    assert compared.exit_code == 0, compared.output
    [record] = [json.loads(line) for line in compared.stdout.splitlines()]
    value, low, high = record["difference"]
    assert (
        record["is_ratio"]
        and low < value < high
        and low < 1 / 3 < high
        and value == pytest.approx(1 / 3, rel=0.3)
    )
    assert record["better"] == "fine" and record["first_better"] < 0.002
    common = coarse.answers[0].right.keys() & fine.answers[0].right.keys()
    assert record["shared"]["questions"] == len(common) >= 6, (
        "the first six questions are the same for all"
    )
    assert record["shared"]["only_second"] > record["shared"]["only_first"]
    assert "p" not in record["shared"], "what the thresholds decide, no second test decides"
    [page_record] = threshold_differences([coarse, fine])
    assert list(page_record.difference or ()) == record["difference"]
    shown = CliRunner().invoke(cli, ["compare", str(coarse.folder), str(fine.folder)]).output
    assert "fine" in shown and "x 0.3" in shown and " to " in shown
    assert "x 0.3" in acuity_page([coarse, fine])
    other = sn.evaluate("snellen:uniform", pool("letter-size"), limit=12).runs[0].folder
    mixed = CliRunner().invoke(cli, ["compare", str(coarse.folder), str(other)])
    assert mixed.exit_code and "compare each kind separately" in str(mixed.exception)
    refused = CliRunner().invoke(
        cli, ["compare", str(coarse.folder), str(fine.folder), "-o", "c.json"]
    )
    assert refused.exit_code and "these runs chose their own questions" in str(refused.exception)


@pytest.mark.parametrize(
    "flags",
    [("--baseline", "x"), ("-o", "c.json"), ("--where", "a == 'b'"), ("--common-answered",)],
)
def test_compare_refuses_flags_that_do_not_apply_to_thresholds_before_it_reads_the_runs(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    size = measured(Observer(12.0, name="size"), tmp_path)
    place = measured(Observer(12.0, name="place"), tmp_path, "place")
    words = ["compare", str(size.folder), str(place.folder)]
    unlike = CliRunner().invoke(cli, words)
    refused = CliRunner().invoke(cli, [*words, *flags])
    assert "no test in common" in str(unlike.exception)
    assert "these runs chose their own questions" in str(refused.exception)


def test_a_report_says_that_shares_of_adaptively_placed_questions_say_nothing(
    twelve: tuple[AcuityRun, Observer],
) -> None:
    sn.load_run(twelve[0].folder).report("r.md")
    [first, *_] = [
        line for line in Path("r.md").read_text("utf-8").splitlines() if line.startswith("- ")
    ]
    assert (
        first.startswith("- The questions of same were chosen adaptively to measure thresholds")
        and "%" not in first
    )


def test_equal_models_are_seldom_told_apart() -> None:
    """Eight equal observers, each with its own luck; bench/acuity.py counts how seldom."""
    runs = [placed(Observer(16.0, seed=seed)) for seed in range(8)]
    pairs = [
        next(threshold_differences(list(pair))) for pair in zip(runs[::2], runs[1::2], strict=True)
    ]
    intervals = [pair.difference for pair in pairs if pair.difference]
    assert len(intervals) == 4 and all(0.75 < interval.value < 1.25 for interval in intervals)
    assert sum(interval.low < 1 < interval.high for interval in intervals) >= 3
    assert all(
        bool(pair.better) == (not low < 1 < high)
        for pair, (_, low, high) in zip(pairs, intervals, strict=True)
    )


# --- the card ----------------------------------------------------------------------------------------------------


def test_the_visual_field_names_the_quarter_that_is_seen_least() -> None:
    def left_below_is_blind(cell: float) -> float:
        return 0.25 if cell % 12 < 6 and cell >= 72 else 1.0

    run = placed(Observer(1, name="half", sees=left_below_is_blind), "place")
    assert not run.thresholds and sum(share.trials for share in run.fields["acuity/place"]) == 144
    assert prescription(run).startswith("sees least at the bottom left (")
    whole = placed(Observer(1, name="whole", sees=lambda cell: 0.95), "place")
    assert prescription(whole) == "sees equally well in all quarters of the image."
    blind = placed(Observer(1, sees=lambda cell: 0.25), "place")
    assert prescription(blind) == "the letter of the visual field test is too small for it."
    page = acuity_page([run, whole])
    assert page.count('class="heat"') == 2 * 36, "four cells of one answer each are joined"
    assert page.count('fill-opacity="0.90"') >= 27 + 27


@pytest.mark.parametrize("name", ["distance", "shape-contrast"])
def test_labels_of_levels_that_stand_close_do_not_overlap(name: str) -> None:
    """The levels of `distance` crowd at 1.01, 1.02, 1.05; those of `shape-contrast` have many digits."""
    [panel] = curve_panels([placed(Observer(1, sees=lambda level: 0.5), name)])
    labels = [
        shape
        for shape in panel.drawing.shapes
        if isinstance(shape, ChartText) and shape.style == "tick"
    ]
    spans = [
        (label.x - 4 * len(label.content), label.x + 4 * len(label.content)) for label in labels
    ]
    assert len(spans) >= 4 and all(end < start for (_, end), (start, _) in pairwise(spans))


def test_the_wall_chart_marks_the_last_line_that_is_read() -> None:
    run = placed(Observer(13.0, name="thirteen"))
    value = run.thresholds[0].value or 0.0
    assert line_read(run.thresholds[0]) == min(line for line in LINES if line >= value)
    page = acuity_page([run, placed(Observer(1, name="blind", sees=lambda level: 0.25))])
    assert page.count('class="optotype"') >= 38 and "blind: no line" in page
    assert f"thirteen: {run.thresholds[0].text}" in page


def test_the_wall_chart_has_the_line_that_an_input_allows_if_the_model_reads_a_smaller_one() -> (
    None
):
    run = placed(Observer(13.0, name="thirteen"))
    ideals = {answers.benchmark: Ideal(84.0, "threshold", 12) for answers in run.answers}
    [panel] = wall_charts([replace(run, ideals=ideals)])
    texts = [shape.content for shape in panel.drawing.shapes if isinstance(shape, ChartText)]
    assert "96 px" in texts and "128 px" not in texts
    assert "input of thirteen" in texts


def test_a_prescription_says_how_often_a_model_is_right_at_the_size_that_it_needs_and_at_its_threshold() -> (
    None
):
    run = placed(Observer(60.0))
    [threshold] = run.thresholds
    form = r"needs letters of (\d+) px or more \((\d+)% right; (\d+)% right at its threshold, (\S+) px\)\."
    match = re.fullmatch(form, prescription(run))
    assert match is not None
    needed, best, halfway, value = map(float, match.groups())
    assert value == pytest.approx(threshold.value, rel=0.005) and value < needed < 160
    assert 50 < halfway < 75 < best, "guessing is 10%"
    assert re.search(f">{min(line for line in LINES if line >= needed)} px<", acuity_page([run])), (
        "its line is drawn"
    )


@pytest.mark.parametrize("test", ["letter-size", "blur"])
def test_the_share_at_a_level_is_the_curves_and_between_two_levels_lies_between_theirs(
    test: str,
) -> None:
    [threshold] = placed(Observer(13.0), test).thresholds
    harder, easier = threshold.points[3:5]
    assert threshold.share_at(harder.level) == pytest.approx(harder.fitted)
    assert harder.fitted < threshold.share_at((harder.level + easier.level) / 2) < easier.fitted
    assert threshold.share_at(threshold.easiest) == pytest.approx(threshold.points[-1].fitted)


def test_a_prescription_from_few_questions_says_where_the_threshold_may_be() -> None:
    fewest, few, many = (placed(Observer(13.0), budget=budget) for budget in (6, 9, 48))
    (below, high), (low, up_to) = fewest.thresholds[0].bounds, few.thresholds[0].bounds
    assert (
        below is None
        and f"not sure: the threshold may be anything up to {high:.2g} px." in prescription(fewest)
    )
    assert (
        f"not sure: the threshold may be anything from {low:.2g} to {up_to:.2g} px."
        in prescription(few)
    )
    assert "not sure" not in prescription(many)
