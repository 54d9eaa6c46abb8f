"""Audits of reading: what is drawn, what labels make of accuracies, and where the numbers are shown."""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import small
import snellen as sn
from snellen.analysis.aggregate import aggregate_run
from snellen.analysis.corrections import AUDIT_FILE
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.intervals import wilson
from snellen.common.seeds import rng_for
from snellen.errors import DataError, StoreError
from snellen.extraction import find_extractor
from snellen.formats.json_files import add_lines
from snellen.formats.whole_files import write_atomically
from snellen.interchange.exports.packing import pack_runs
from snellen.models.embedded import Scripted
from snellen.records import Estimate, Failure, Request, Response, Result
from snellen.scoring.reply_labels import (
    LABELS_FILE,
    NO_OPTION,
    HumanLabel,
    label_items,
    read_labels,
)
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun
from snellen_lab.agreement.readers import agreement_study
from snellen_lab.audit.correction import corrected_rows, uncorrected_headlines
from snellen_lab.audit.draw import (
    AuditDesign,
    allocation,
    design_for,
    draw_replies,
    proportional_probabilities,
    read_design,
)
from snellen_lab.audit.estimate import cell_of, corrected_number, with_reading_error
from snellen_lab.audit.population import (
    AuditedUnit,
    Meaning,
    audited_protocols,
    reading_of,
    reply_key,
)
from snellen_lab.audit.right_each_time import LabelledQuestion, right_each_time
from snellen_lab.audit.run_audit import (
    audit_of,
    labelled_beginning,
    labels_that_count,
    most_misread,
)
from snellen_lab.cli.labels import audit_command

AUDITED = "accuracy_audited"
"""What the corrected number is called before it takes the place of the one as read."""
READ = "accuracy_as_read"

# --- what is drawn ---------------------------------------------------------------------------------------------------

STRATA = st.dictionaries(
    st.sampled_from(["certain", "likely", "open", "judge"]),
    st.tuples(st.floats(0.01, 1), st.integers(1, 60)),
    min_size=1,
)


@given(STRATA, st.integers(1, 120))
def test_the_beginning_of_an_allocation_is_one_and_no_stratum_gives_more_than_it_has(
    strata: dict[str, tuple[float, int]], limit: int
) -> None:
    whole = list(allocation(strata, 1000))
    assert Counter(whole) == {reading: count for reading, (_, count) in strata.items()}
    assert list(allocation(strata, limit)) == whole[:limit]


def test_readings_in_doubt_are_drawn_more_often_and_certain_ones_often_enough() -> None:
    drawn = Counter(
        allocation({"certain": (0.9, 1800), "likely": (0.07, 140), "open": (0.03, 60)}, 150)
    )
    assert drawn["certain"] > 75  # none misread among so many: at most 4 %
    assert drawn["likely"] / 140 > 2 * drawn["certain"] / 1800 and drawn["open"] >= 20
    # In proportion to weight times sqrt(p (1 - p)): 0.5 * 0.357 and 0.5 * 0.5.
    assert Counter(allocation({"likely": (0.5, 999), "open": (0.5, 999)}, 100)) == {
        "likely": 42,
        "open": 58,
    }
    rare = Counter(allocation({"certain": (0.05, 100), "open": (0.95, 1900)}, 100))
    assert rare["certain"] >= 13


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=40), st.data())
def test_probabilities_add_up_to_what_is_drawn_and_follow_the_weights(
    weights: list[float], data: Any
) -> None:
    count = data.draw(st.integers(0, len(weights)))
    chances = proportional_probabilities(weights, count)
    assert math.fsum(chances) == pytest.approx(count)
    assert all(0 <= chance <= 1 for chance in chances)
    free = [
        chance / weight
        for chance, weight in zip(chances, weights, strict=True)
        if chance < 1 - 1e-9
    ]
    assert not free or max(free) == pytest.approx(min(free))


# --- what labels say -------------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.data())
def test_the_bound_of_misread_replies_is_clopper_and_pearson_s(labelled: int, data: Any) -> None:
    stats = pytest.importorskip("scipy.stats", reason="waits for scipy")
    wrong = data.draw(st.integers(0, labelled))
    expected = 1.0 if wrong == labelled else stats.beta.ppf(0.95, wrong + 1, labelled - wrong)
    assert most_misread(wrong / labelled, labelled) == pytest.approx(expected, abs=1e-6)


def test_sixty_certain_readings_without_a_fault_leave_five_in_a_hundred() -> None:
    assert most_misread(0.0, 60) == pytest.approx(1 - 0.05 ** (1 / 60), abs=1e-6)
    assert most_misread(0.0, 0) == 1.0


def test_labels_of_unequal_weight_are_fewer_in_effect() -> None:
    equal, unequal = cell_of(0.5, True, [(2, 1), (2, 0)]), cell_of(0.5, True, [(3, 1), (1, 0)])
    assert (equal.right, equal.labelled) == (0.5, 2)
    assert (unequal.right, unequal.labelled) == (0.75, 1.6)
    assert cell_of(0.5, True, []).margins == (
        0.5,
        0.0,
    )  # as it was scored, and nothing is known of it


def test_no_fault_among_the_labels_does_not_make_the_interval_that_of_the_questions_alone() -> None:
    values, groups = [1.0] * 70 + [0.0] * 30, list(range(100))
    as_read = estimate_mean(values, groups)
    cells = [cell_of(0.7, True, [(1, 1)] * 40), cell_of(0.3, False, [(1, 0)] * 20)]
    audited = with_reading_error(as_read, as_read, cells)
    assert audited.value == as_read.value
    below = math.hypot(0.7 - (as_read.low or 0), 0.7 * (1 - wilson(1, 40)[0]))
    above = math.hypot((as_read.high or 0) - 0.7, 0.3 * wilson(0, 20)[1])
    assert (audited.low, audited.high) == (pytest.approx(0.7 - below), pytest.approx(0.7 + above))


def test_the_interval_is_no_narrower_than_the_spread_over_pictures_of_what_labels_add() -> None:
    cells = [cell_of(1.0, True, [(1, 1)] * 50 + [(1, 0)] * 50)]
    expected = estimate_mean([0.5] * 100, list(range(100)))
    spread = estimate_mean([1.0] * 50 + [0.0] * 50, [place // 10 for place in range(100)])
    audited = with_reading_error(spread, expected, cells)
    assert (audited.low, audited.high) == (pytest.approx(spread.low), pytest.approx(spread.high))
    assert (audited.high or 0) - (audited.low or 0) > 2.5 * (
        wilson(0.5, 100)[1] - wilson(0.5, 100)[0]
    )


# --- a run whose replies are not always read as they were meant ------------------------------------------------------

SAYINGS = (
    "({})",
    "({})",
    "({})",
    "{}.",
    "I would think that ({}) is what one sees here",
    "hm, {} or so, who knows",
    "",
)


def says(request: Request) -> str:
    """Right in two of three; worded in one of several ways."""
    rng = rng_for("says", request.sample_id, request.variant.test)
    right = int(request.sample_id[1:]) % 4
    place = right if rng.random() < 0.67 else (right + 1) % 4
    return rng.choice(SAYINGS).format("ABCD"[request.variant.order.index(place)])


def means(item: Any) -> str:
    """What a careful reader takes each reply for: now and then another option than it names, the right one mostly."""
    sample_id = item.unparsed.prediction.sample_id
    rng = rng_for("means", item.unparsed.prediction.benchmark, sample_id)
    named = [label for label in "ABCD" if label in item.unparsed.reply.replace("I ", "")]
    faulty = item.unparsed.prediction.benchmark == "small"
    if rng.random() < (0.35 if faulty else 0.04):
        return "ABCD"[item.unparsed.displayed_order.index(int(sample_id[1:]) % 4)]
    return named[0] if named and rng.random() < 0.97 else NO_OPTION


def label_all(run: Path, key: Callable[[Any], str] = means, by: str = "") -> None:
    for item in {item.id: item for item in label_items(run)}.values():
        add_lines(run / LABELS_FILE, HumanLabel(item.id, key(item), by))


def true_accuracy(run: ScoredRun, over: str = "benchmarks") -> float:
    """Of the mean over benchmarks, or over all questions, as all labels have it."""
    labels = {key[0]: label.label for key, label in read_labels(run.folder / LABELS_FILE).items()}
    right: dict[str, list[float]] = {
        scored.spec.name: [0.0] * len(scored.samples) for scored in run.benchmarks
    }
    for place, item in enumerate(label_items(run.folder)):
        prediction = item.unparsed.prediction
        label = labels[item.id]
        choice = (
            None
            if label == NO_OPTION
            else item.unparsed.displayed_order[item.option_labels.index(label or "")]
        )
        [answer] = [
            scored.answers[prediction.sample_id, 0].options
            for scored in run.benchmarks
            if scored.spec.name == prediction.benchmark
        ]
        right[prediction.benchmark][place % len(right[prediction.benchmark])] += choice in answer
    if over == "questions":
        return fmean(value for values in right.values() for value in values)
    return fmean(fmean(values) for values in right.values())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ScoredRun:
    """Two benchmarks, of which the small one is read far worse."""
    folder = tmp_path_factory.mktemp("audited")
    for name, count, dimension in (("large", 240, "CG"), ("small", 60, "FG")):
        rows = [
            {**row, "question": f"{name}: {row['question']}"}
            for row in small.rows(count, pictures=count // 3)
        ]
        small.built(rows, folder / name, name=name, dimension=dimension)
    benchmarks = [str(folder / "large"), str(folder / "small")]
    sn.evaluate(Scripted(says), benchmarks, "vanilla", runs=folder, name="run")
    label_all(folder / "run")
    return score_run(folder / "run")


AS_READ: dict[Path, list[Result]] = {}


def rows_as_read(run: ScoredRun) -> list[Result]:
    """Return the rows of a run as if nothing of it was labelled, computed once."""
    if run.folder not in AS_READ:
        labels = run.folder / LABELS_FILE
        hidden = labels.rename(labels.with_suffix(".hidden"))
        AS_READ[run.folder] = aggregate_run(run)
        hidden.rename(labels)
    return AS_READ[run.folder]


def audited(run: ScoredRun, limit: int, seed: int = 0) -> dict[str, Result]:
    """The corrected accuracies after a draw, by benchmark; over all of them by `*`."""
    (run.folder / AUDIT_FILE).unlink(missing_ok=True)
    design_for(run, limit, seed)
    audit = audit_of(run)
    assert audit is not None
    corrected = list(corrected_rows(run, rows_as_read(run), audit))
    by_place = {(row.benchmark, row.dimension): row for row in corrected if row.metric == AUDITED}
    capabilities = [
        row for row in corrected if row.metric in ("capability_audited", "headline_audited")
    ]
    assert {row.dimension: row.estimate for row in capabilities} == {  # of the same accuracies
        row.dimension: row.estimate for row in by_place.values() if row.benchmark == "*"
    }
    for benchmark, dimension in (("large", "CG"), ("small", "FG")):
        assert by_place["*", dimension].estimate == by_place[benchmark, dimension].estimate
    assert len(by_place) == 5
    return {
        row.benchmark: row
        for row in by_place.values()
        if row.benchmark != "*" or row.dimension == "*"
    }


def test_a_larger_draw_holds_those_of_a_smaller_and_another_seed_draws_others(
    run: ScoredRun,
) -> None:
    small_draw, large_draw = draw_replies(run, 40, 0), draw_replies(run, 90, 0)
    keys = [reply.key for reply in large_draw.drawn]
    assert len(set(keys)) == 90
    assert [reply.key for reply in small_draw.drawn] == keys[:40]
    assert {reply.key for reply in draw_replies(run, 90, 1).drawn} != set(keys)
    assert sum(stratum.drawn for stratum in large_draw.strata) == 90
    for stratum in large_draw.strata:
        chances = [
            reply.probability for reply in large_draw.drawn if reply.reading == stratum.reading
        ]
        assert len(chances) == stratum.drawn and max(chances) <= 1


def test_each_benchmark_counts_as_much_as_in_the_mean_and_wordless_replies_are_not_drawn(
    run: ScoredRun,
) -> None:
    drawn = Counter(
        reply.benchmark for seed in range(5) for reply in draw_replies(run, 40, seed).drawn
    )
    assert 0.6 < drawn["large"] / drawn["small"] < 1.6  # of four times as many questions
    assert sum(stratum.replies for stratum in draw_replies(run, 1, 0).strata) == sum(
        1 for _ in label_items(run.folder)
    )


def test_labels_of_all_replies_give_the_true_accuracy(run: ScoredRun) -> None:
    row = audited(run, 10_000)["*"]
    assert row.estimate.value == pytest.approx(true_accuracy(run))
    overall = {r.metric: r for r in aggregate_run(run) if (r.benchmark, r.dimension) == ("*", "*")}
    assert overall["accuracy"].estimate == row.estimate
    as_read = overall[READ]
    assert abs((as_read.estimate.value or 0) - true_accuracy(run)) > 0.08
    assert (row.estimate.n, row.members) == (as_read.estimate.n, as_read.members)
    audit = audit_of(run)
    assert audit is not None
    parts = [audited.part("accuracy", audit.meanings) for audited in audited_protocols(run)]
    over_questions = corrected_number([[[part for part in parts if part]]])
    assert over_questions.value == pytest.approx(true_accuracy(run, "questions"))
    assert over_questions.value != pytest.approx(row.estimate.value, abs=0.01)
    assert all(error.labelled == error.replies for error in audit.readings)
    assert all(error.share == pytest.approx(error.at_most) for error in audit.readings)


@pytest.fixture(scope="module")
def draws(run: ScoredRun) -> list[tuple[Estimate, AuditDesign]]:
    """What forty draws of 60 replies make of the mean over benchmarks, and how each was drawn."""
    estimates = [audited(run, 60, seed)["*"].estimate for seed in range(40)]
    return [(estimate, draw_replies(run, 60, seed)) for seed, estimate in enumerate(estimates)]


def test_estimates_are_right_on_average_and_their_intervals_hold(
    run: ScoredRun, draws: list[tuple[Estimate, AuditDesign]]
) -> None:
    """Fails where all replies count alike, whatever their benchmark, and where doubtful ones alone are labelled."""
    truth = true_accuracy(run)
    estimates = [estimate for estimate, _ in draws]
    values = [estimate.value or 0.0 for estimate in estimates]
    assert abs(fmean(values) - truth) < 3 * stdev(values) / math.sqrt(len(values))
    assert abs(fmean(values) - truth) < 0.02
    held = [(estimate.low or 0) <= truth <= (estimate.high or 0) for estimate in estimates]
    assert sum(held) >= 38  # the questions are the same each time, so that more than 95 % hold
    assert fmean((e.high or 0) - (e.low or 0) for e in estimates) < 0.35


def without_the_large(design: AuditDesign) -> AuditDesign:
    return replace(
        design, drawn=tuple(reply for reply in design.drawn if reply.benchmark == "small")
    )


def as_if_each_alike(design: AuditDesign) -> AuditDesign:
    return replace(design, drawn=tuple(replace(reply, probability=0.2) for reply in design.drawn))


def test_a_wrong_design_gives_wrong_estimates(
    run: ScoredRun, draws: list[tuple[Estimate, AuditDesign]]
) -> None:
    truth, errors = true_accuracy(run), []
    for estimate, design in draws[:25]:
        estimates = [estimate.value or 0.0]
        for wrong in (without_the_large, as_if_each_alike):
            write_atomically(run.folder / AUDIT_FILE, msgspec.json.encode(wrong(design)))
            rows = corrected_rows(run, rows_as_read(run), audit_of(run))
            [row] = [
                row
                for row in rows
                if (row.benchmark, row.dimension, row.metric) == ("*", "*", AUDITED)
            ]
            estimates.append(row.estimate.value or 0.0)
        errors.append([estimate - truth for estimate in estimates])
    of_right, *of_wrong = (abs(fmean(side)) for side in zip(*errors, strict=True))
    assert min(of_wrong) > 2 * of_right and min(of_wrong) > 0.015


def test_the_design_is_kept_and_grows(run: ScoredRun) -> None:
    (run.folder / AUDIT_FILE).unlink(missing_ok=True)
    first = design_for(run, 30, 0)
    assert read_design(run.folder) == first == design_for(run, 20, 0)
    assert len(design_for(run, 50, 0).drawn) == 50
    assert first.read_by == (find_extractor("standard").version,)
    (run.folder / AUDIT_FILE).write_text("{")
    with pytest.raises(StoreError, match="not the design of an audit"):
        read_design(run.folder)
    (run.folder / AUDIT_FILE).unlink()


# --- who labels ------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """Forty questions about twenty images, nothing labelled."""
    small.built(small.rows(40), tmp_path / "mine")
    sn.evaluate(Scripted(says), str(tmp_path / "mine"), "vanilla", runs=tmp_path, name="asked")
    return tmp_path / "asked"


def test_without_labels_it_says_what_to_do(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = small.command(capsys, "audit", str(asked))
    assert code and "none of the drawn replies has a label yet" in " ".join(err.split())


def test_the_form_asks_for_what_was_drawn_and_the_numbers_follow(asked: Path) -> None:
    done = CliRunner().invoke(
        audit_command, [str(asked), "--form", "--limit", "12", "--by", "ann"], input="1" * 11 + "q"
    )
    assert done.exit_code == 0, done.output
    design = read_design(asked)
    assert design is not None
    labels = read_labels(asked / LABELS_FILE)
    assert {by for _, by in labels} == {"ann"}
    assert {item for item, _ in labels} <= {reply.item for reply in design.drawn}
    assert "Numbers after labelling 11 replies" in done.output
    assert "11 of 12 replies drawn (seed 0) are labelled, by ann" in done.output


def test_labels_come_from_a_file_and_rows_are_numbers(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(
        "".join(json.dumps({"item": i.id, "label": means(i)}) + "\n" for i in label_items(asked))
    )
    code, out, _ = small.command(capsys, "audit", str(asked), "--labels", str(file), "--json")
    assert not code
    rows = [json.loads(line) for line in out.splitlines()]
    readings = {row["reading"]: row for row in rows if "reading" in row}
    assert readings["certain"]["labelled"] == readings["certain"]["replies"]
    assert readings["certain"]["at_most"] == readings["certain"]["share"]  # all were labelled
    [row] = [row for row in rows if row.get("benchmark") == "mine"]
    assert row["metric"] == AUDITED and row["low"] < row["value"] < row["high"] and row["n"] == 40


def test_labels_count_as_far_as_labelling_came(asked: Path) -> None:
    """Hard replies labelled by `agree` behind that place would weigh too much."""
    design = design_for(score_run(asked), 30, 0)
    items = [reply.item for reply in design.drawn]
    assert len(set(items)) == 30
    assert (
        labelled_beginning(design.drawn, {*items[:10], items[17], items[25]}) == design.drawn[:11]
    )
    assert labelled_beginning(design.drawn, {*items[:4], *items[5:]}) == design.drawn  # one skipped
    assert labelled_beginning(design.drawn, ()) == ()


def test_several_people_count_by_majority_and_one_alone_by_name(asked: Path) -> None:
    [first, second, *_] = {item.id: item for item in label_items(asked)}.values()
    for by, labels in {"ann": "AB", "bob": "AC", "eve": "DX"}.items():
        for item, label in zip((first, second), labels, strict=True):
            add_lines(asked / LABELS_FILE, HumanLabel(item.id, label, by))
    items = {first.id, second.id}
    assert labels_that_count(asked, items) == (
        ("ann", "bob", "eve"),
        {first.id: "A", second.id: ""},
    )
    assert labels_that_count(asked, items, "eve") == (("eve",), {first.id: "D", second.id: "X"})
    assert labels_that_count(asked, items, "nobody") == ((), {})


def test_a_judge_labels_in_place_of_people_and_counts_where_none_did(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "judge.json"
    file.write_text(json.dumps({f"q{i:03d}": "A" for i in range(40)} | {"check": "D"}))
    words = ("audit", str(asked), "--judge", f"snellen:scripted?file={file}")
    code, out, err = small.command(capsys, *words)
    assert not code, err
    labels = read_labels(asked / LABELS_FILE)
    [judge] = {by for _, by in labels}
    assert (
        judge.startswith("judge:")
        and "snellen-match-1" in judge
        and "judge:snellen:scripted" in out
    )
    assert {label.label for label in labels.values()} == {"A"}
    lines = (asked / LABELS_FILE).read_text()
    assert small.command(capsys, *words)[0] == 0
    assert (asked / LABELS_FILE).read_text() == lines  # neither asked nor written again
    with pytest.raises(DataError, match="no reply has a label yet"):
        agreement_study(asked)  # which is about people
    label_all(asked, by="ann")
    audit = audit_of(score_run(asked))
    assert audit is not None and audit.raters == ("ann",)
    assert (audit_of(score_run(asked), judge) or audit).raters == (judge,)


# --- where it is shown -----------------------------------------------------------------------------------------------


def test_results_and_reports_show_the_corrected_number_beside_the_other(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sn.score(asked)
    assert READ not in {row.metric for row in before.rows}
    assert "as read" not in before.report(tmp_path / "before.md").read_text()
    design_for(before.runs[0], 30, 0)
    label_all(asked, by="ann")
    after = sn.score(asked)
    value = after.value("accuracy", benchmark="mine")
    as_read = after.value(READ, benchmark="mine")
    assert as_read == before.value("accuracy", benchmark="mine") != value
    kept = {
        (row["metric"], row["benchmark"])
        for row in json.loads((asked / "results.json").read_text())
    }
    assert {(READ, "mine"), (READ, "*")} <= kept
    for form in (".md", ".html", ".tex"):
        page = after.report(tmp_path / f"report{form}").read_text()
        assert "as read" in page and "Reading error" in page and "at most" in page
    # The sentence at the head and the first table have the corrected number.
    report = after.report(tmp_path / "report.md").read_text()
    assert f"answers {100 * value:.1f}% of the questions" in report.split("## ")[0]
    assert [row.metric for row in before.rows] == [
        row.metric for row in after.rows if not row.metric.endswith("_as_read")
    ]
    code, out, _ = small.command(capsys, "score", str(asked))
    assert not code and f"{100 * value:.1f}%" in out


def test_a_comparison_takes_the_corrected_numbers(asked: Path, tmp_path: Path) -> None:
    other = asked.parent / "other"
    sn.evaluate(
        "snellen:always-a", str(tmp_path / "mine"), "vanilla", runs=asked.parent, name="other"
    )
    before = sn.load_run([asked, other]).compare(resamples=0)
    design_for(score_run(asked), 30, 0)
    label_all(asked, by="ann")
    after = sn.score(asked)
    results = sn.load_run([asked, other])
    [read] = [each for each in before.differences if each.benchmark == "mine"]
    [corrected] = [
        each for each in results.compare(resamples=0).differences if each.benchmark == "mine"
    ]
    assert corrected.first_value == pytest.approx(after.value("accuracy", benchmark="mine"))
    assert corrected.second_value == read.second_value
    gap = corrected.first_value - corrected.second_value
    assert corrected.difference.value == pytest.approx(gap)
    assert corrected.difference.low < gap < corrected.difference.high
    assert corrected.least_by_reading is None  # labels say how it was misread


def test_a_run_that_was_asked_more_since_is_drawn_from_again(asked: Path, tmp_path: Path) -> None:
    scored = score_run(asked)
    first = design_for(scored, 30, 0)
    label_all(asked)
    with (asked / "journal-0.jsonl").open("rb+") as journal:
        lines = journal.read()
        journal.write(lines.splitlines(keepends=True)[-1])  # answered once more by another worker
    again = sn.score(asked)
    assert READ not in {row.metric for row in again.rows}
    assert "received replies since the draw" in again.report(tmp_path / "report.md").read_text()
    assert [r.key for r in design_for(again.runs[0], 30, 0).drawn] == [r.key for r in first.drawn]
    assert READ in {row.metric for row in sn.score(asked).rows}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> ScoredRun:
    """Asked in turned orders, and three times; every reply is labelled and drawn."""
    folder = tmp_path_factory.mktemp("several")
    small.built(small.rows(24), folder / "mine")
    sn.evaluate(
        Scripted(says),
        str(folder / "mine"),
        ["circular", "instability?m=3"],
        runs=folder,
        name="several",
    )
    label_all(folder / "several")
    scored = score_run(folder / "several")
    design_for(scored, 10_000, 0)
    return scored


def knows_most(request: Request) -> str:
    """Nine questions in ten each time."""
    rng = rng_for("knows", request.sample_id, request.variant.test)
    right = int(request.sample_id[1:]) % 4
    place = right if rng_for("most", request.sample_id).random() < 0.9 else rng.randrange(4)
    return rng.choice(SAYINGS[:-1]).format("ABCD"[request.variant.order.index(place)])


def test_questions_that_have_to_be_right_each_time_are_drawn_whole_and_corrected(
    tmp_path: Path,
) -> None:
    small.built(small.rows(48), tmp_path / "mine")
    sn.evaluate(
        Scripted(knows_most), str(tmp_path / "mine"), "circular", runs=tmp_path, name="several"
    )
    label_all(tmp_path / "several")
    several = score_run(tmp_path / "several")
    design_for(several, 10_000, 0)
    of_question: dict[str, set[int]] = {}
    for reply in draw_replies(several, 40, 0).drawn:
        of_question.setdefault(reply.sample_id, set()).add(reply.variant.test)
    [scored] = several.benchmarks
    replies = list(scored.predictions)
    with_words = [reply for reply in replies if reading_of(reply) != "no words"]
    for sample_id, tests in of_question.items():
        assert tests == {reply.variant.test for reply in with_words if reply.sample_id == sample_id}
    # By hand: the product over passes of the shares right, of the questions that were right until then and went on.
    labels = {
        item: label.label for (item, _), label in read_labels(several.folder / LABELS_FILE).items()
    }
    design = read_design(several.folder)
    assert design is not None
    meant = {reply.key: labels[reply.item] for reply in design.drawn}
    going, expected = set(scored.samples), 1.0
    for test in range(4):
        asked = {reply.sample_id: reply for reply in replies if reply.variant.test == test}
        came = going & asked.keys()
        right = {name: "ABCD"[asked[name].variant.order.index(int(name[1:]) % 4)] for name in came}
        going = {name for name in came if right[name] == meant.get(reply_key(asked[name]))}
        expected *= len(going) / len(came)
    [row] = [
        r
        for r in aggregate_run(several)
        if (r.metric, r.benchmark, r.slice) == ("circular_accuracy", "mine", "")
    ]
    assert row.estimate.value == pytest.approx(expected) and expected > 0.5
    [as_read] = [
        r
        for r in aggregate_run(several)
        if (r.metric, r.benchmark) == ("circular_accuracy_as_read", "mine")
    ]
    assert (as_read.estimate.value or 0) < expected - 0.2


def test_what_a_value_changes_of_the_shares_of_others_adds_up_to_nothing() -> None:
    questions = [
        LabelledQuestion("a", 2.0, [True, True], 2),
        LabelledQuestion("a", 1.0, [True, False], 2),
        LabelledQuestion("a", 1.0, [True], 2),  # given up although it was right
        LabelledQuestion("b", 3.0, [False], 2),
    ]
    assert right_each_time(questions, {"a": 4, "b": 3}) is None  # too few went on
    sure = [LabelledQuestion("a", 0.0, [True, True], 2)] * 5
    values = (right_each_time([*questions, *sure], {"a": 4, "b": 3}) or [])[: len(questions)]
    weighted = math.fsum(
        question.weight * value for question, value in zip(questions, values, strict=True)
    )
    assert weighted == pytest.approx(2.0 + 2 / 3)  # two of three that went on were right
    assert values[0] > 1 and values[1] < 0 and values[2] == pytest.approx(2 / 3)


def test_presentations_count_by_their_part_of_a_question_and_other_metrics_are_left_alone(
    several: ScoredRun,
) -> None:
    scored = several
    corrected = [
        row
        for row in aggregate_run(scored)
        if row.metric.endswith("_as_read") and row.benchmark == "mine"
    ]
    assert {row.metric for row in corrected} == {READ}  # too few went on to the last pass
    rows = {
        row.protocol: row
        for row in aggregate_run(scored)
        if (row.metric, row.benchmark, row.slice) == ("accuracy", "mine", "")
        and row.protocol in {each.protocol for each in corrected}
    }
    assert set(rows) == {"circular", "instability?m=3"}
    design = read_design(scored.folder)
    assert design is not None
    some = [
        reply.sample_id
        for reply in draw_replies(scored, 45, 0).drawn
        if reply.protocol != "circular"
    ]
    assert (
        len(set(some)) > 0.7 * len(some) > 8
    )  # presentations of one question are drawn one by one
    labels = {
        item: label.label for (item, _), label in read_labels(scored.folder / LABELS_FILE).items()
    }
    shares: dict[str, list[float]] = {}
    for reply in (reply for reply in design.drawn if reply.protocol != "circular"):
        place = None if labels[reply.item] == NO_OPTION else "ABCD".index(labels[reply.item] or "")
        meant = None if place is None else reply.variant.order[place]
        shares.setdefault(reply.sample_id, []).append(meant == int(reply.sample_id[1:]) % 4)
    expected = sum(sum(values) / 3 for values in shares.values()) / 24
    assert rows["instability?m=3"].estimate.value == pytest.approx(expected)


def test_questions_that_failed_stay_out_and_are_counted(tmp_path: Path) -> None:
    class Failing(Scripted):
        def generate(self, requests: Any, images: Any) -> list[Response]:
            down = Response(error=Failure("server", "down"))
            responses = super().generate(requests, images)
            return [
                down if r.sample_id < "q004" else given
                for r, given in zip(requests, responses, strict=True)
            ]

    small.built(small.rows(24), tmp_path / "mine")
    sn.evaluate(
        Failing(says), str(tmp_path / "mine"), runs=tmp_path, name="failing", error_budget=1.0
    )
    label_all(tmp_path / "failing")
    scored = score_run(tmp_path / "failing")
    design_for(scored, 100, 0)
    rows = [row for row in aggregate_run(scored) if row.benchmark == "mine" and not row.slice]
    assert READ in {row.metric for row in rows}
    [row] = [row for row in rows if row.metric == "accuracy"]
    assert (row.estimate.n, row.estimate.errors, row.estimate.unscored) == (20, 4, 0)


def test_the_reply_most_in_doubt_speaks_for_a_question_and_all_have_to_be_labelled(
    run: ScoredRun,
) -> None:
    reply = next(reply for reply in run.benchmarks[0].predictions if reading_of(reply) == "certain")
    replies = {
        reading: replace(
            reply,
            confidence=None,
            extraction_method=reading,
            variant=replace(reply.variant, test=place),
        )
        for place, reading in enumerate(("judge", "model"), 1)
    }
    likely, untold = (
        replace(reply, confidence=confidence, extraction_method=None)
        for confidence in ("likely", None)
    )
    assert [reading_of(other) for other in (replies["judge"], likely, untold)] == [
        "judge",
        "likely",
        "open",
    ]
    assert (
        AuditedUnit((reply.sample_id, 0), (reply, likely, replies["judge"]), 1.0).reading == "judge"
    )
    assert AuditedUnit((reply.sample_id, 0), (replies["judge"], untold), 1.0).reading == "open"
    unit = AuditedUnit((reply.sample_id, 0), tuple(replies.values()), 1.0)
    labels = {reply_key(other): Meaning(place, 2.0) for place, other in enumerate(unit.replies)}
    assert unit.choices(labels) == [0, 1] and unit.weight(labels) == 2.0
    [first, _] = labels
    assert unit.choices({first: labels[first]}) is None


def test_each_headline_that_labels_cannot_correct_says_why(tmp_path: Path) -> None:
    class Failing(Scripted):
        def generate(self, requests: Any, images: Any) -> list[Response]:
            down = Response(error=Failure("server", "down"))
            responses = super().generate(requests, images)
            return [
                down if (r.variant.test, r.sample_id < "q004") == (1, True) else reply
                for r, reply in zip(requests, responses, strict=True)
            ]

    made = str(small.built(small.rows(12), tmp_path / "mine", headline="circular_accuracy").folder)
    sn.evaluate(Failing(says), made, "circular", runs=tmp_path, name="failing", error_budget=1.0)
    sn.evaluate("snellen:uniform", made, ("vanilla", "likelihood"), runs=tmp_path, name="both")
    reasons = {}
    for name in ("failing", "both"):
        label_all(tmp_path / name, lambda item: "A")
        scored = score_run(tmp_path / name)
        design_for(scored, 100, 0)
        audit = audit_of(scored)
        assert audit is not None
        for left in uncorrected_headlines(scored, aggregate_run(scored), audit):
            reasons[left.row.protocol, left.row.metric] = left.why
    assert reasons == {
        (
            "circular",
            "circular_accuracy",
        ): "some requests failed or the run was stopped, so it is not a plain mean over questions",
        ("likelihood", "accuracy"): "log-likelihoods are not replies and cannot be misread",
    }


def yes_or_no(request: Request) -> str:
    rng = rng_for("yes or no", request.sample_id)
    return rng.choice(
        ("yes", "no", "yes", "it is hard to say, but I see it", "I would rather not think so")
    )


def test_f1_follows_from_what_replies_mean_and_free_text_is_said_to_be_as_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {**row, "options": ["yes", "no"], "answer": i % 2} for i, row in enumerate(small.rows(40))
    ]
    small.built(
        rows,
        tmp_path / "objects",
        name="objects",
        metrics=("pope",),
        headline="pope_f1",
        dimension="CG",
    )
    words = [
        {"id": f"t{i}", "question": "What is it?", "answer": "cat", "image": small.cell(i)}
        for i in range(4)
    ]
    small.built(words, tmp_path / "free", name="free", formulation="text", metrics=("exact_match",))
    benchmarks = [str(tmp_path / "objects"), str(tmp_path / "free")]
    sn.evaluate(Scripted(yes_or_no), benchmarks, runs=tmp_path, name="said")
    label_all(
        tmp_path / "said", key=lambda item: "B" if item.unparsed.reply[:2] in ("no", "I ") else "A"
    )
    scored = score_run(tmp_path / "said")
    design_for(scored, 100, 0)
    [objects, _] = scored.benchmarks
    negative = {
        name for name in objects.samples if rng_for("yes or no", name).randrange(5) in (1, 4)
    }
    said_yes = objects.samples.keys() - negative
    hits = sum(int(name[1:]) % 2 == 0 for name in said_yes)
    values = {
        row.metric: row.estimate
        for row in aggregate_run(scored)
        if row.benchmark == "objects" and not row.slice
    }
    corrected = values["pope_f1"]
    assert (
        corrected.value
        == pytest.approx(2 * hits / (len(said_yes) + 20))
        != pytest.approx(values["pope_f1_as_read"].value)
    )
    assert (corrected.low or 0) < (corrected.value or 0) < (corrected.high or 0) < 1
    [capability] = [
        row for row in aggregate_run(scored) if (row.metric, row.dimension) == ("capability", "CG")
    ]
    assert capability.estimate.value == pytest.approx(corrected.value)
    code, out, _ = small.command(capsys, "audit", str(scored.folder))
    assert (
        not code
        and "Not corrected: exact match of free; free text is scored without reading"
        in " ".join(out.split())
    )


def test_a_part_of_a_run_is_audited_by_labels_of_its_own_replies(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for item in label_items(asked):
        if int(item.unparsed.prediction.sample_id[1:]) % 2:
            add_lines(asked / LABELS_FILE, HumanLabel(item.id, means(item), "ann"))
    words = ("audit", str(asked), "--limit", "12", "--json")
    code, out, _ = small.command(capsys, *words, "--where", "level == 'hard'")
    [row] = [
        row
        for row in map(json.loads, out.splitlines())
        if row.get("metric") == AUDITED and row["benchmark"] != "*"
    ]
    assert not code and row["n"] == 20 and row["low"] < row["value"] < row["high"]
    design = read_design(asked)
    assert design is not None
    hard = [reply for reply in design.drawn if int(reply.sample_id[1:]) % 2]
    assert 12 <= len(hard) < len(design.drawn)
    assert (
        sn.score(asked).only(where="level == 'hard'").value("accuracy", benchmark="mine")
        == row["value"]
    )
    code, _, err = small.command(capsys, "audit", str(asked), "--where", "level == 'easy'")
    assert (
        code
        and "none of the drawn replies has a label yet" in " ".join(err.split())
        and "--where" in err
    )


def test_a_run_without_replies_or_answers_has_nothing_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.built(small.rows(8), tmp_path / "mine")
    sn.evaluate(
        "snellen:uniform", str(tmp_path / "mine"), "likelihood", runs=tmp_path, name="white"
    )
    code, _, err = small.command(capsys, "audit", str(tmp_path / "white"))
    assert code and "no accuracy is computed from replies with known answers" in " ".join(
        err.split()
    )


def test_an_audit_travels_with_a_packed_run(asked: Path, tmp_path: Path) -> None:
    design_for(score_run(asked), 30, 0)
    label_all(asked, by="ann")
    here = sn.score(asked).value("accuracy", benchmark="mine")
    pack_runs([asked], tmp_path / "sent.zip", answers=True)
    with zipfile.ZipFile(tmp_path / "sent.zip") as archive:
        archive.extractall(tmp_path / "elsewhere")
    assert sn.score(tmp_path / "elsewhere/asked").value("accuracy", benchmark="mine") == here
