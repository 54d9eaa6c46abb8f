"""A metric declares itself: what a stranger says of one in three lines is what all outputs show."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.console import Console

import small
import snellen as sn
from snellen import registry
from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import HEADLINE
from snellen.analysis.ranks import competition_ranks
from snellen.building.benchmark import Benchmark
from snellen.cli import main
from snellen.errors import DataError
from snellen.metrics.declaration import (
    ChoiceMetric,
    IntervalKind,
    UnparsedRule,
    declared_row,
    find_metric,
    metric_row,
    reply_metric,
)
from snellen.records import Answer, Better, Failure, Prediction, Request, Response, Score
from snellen.report.reported_runs import CHOICE_METRIC_NAMES, method_rows, prepare_reported_runs
from snellen.report.sample_cards import score_meanings
from snellen.report.summary import absence_reason
from snellen.report.terminal import first_tables, other_tables
from test_docs import ROOT

# --- a stranger's metrics, three lines each ----------------------------------------------------------------------


@reply_metric(unit="seconds", better="lower", low=0.0)
def seconds_off(reply: str, references: Sequence[str]) -> float:
    """How far a time is off."""
    return abs(float(reply) - float(references[0]))


@reply_metric(unit="points", low=0.0, high=10.0, scale="points 0-10", title="warmth of tone")
def warmth(reply: str, references: Sequence[str]) -> float:
    return min(len(reply), 10)


@reply_metric(unit="share")
def brief(reply: str, references: Sequence[str]) -> float:
    return float(len(reply) < 3)


def plain(reply: str, references: Sequence[str]) -> float:
    return len(reply) / 10


def first_place(predictions: Sequence[Prediction], answer: Answer) -> float:
    return sum(p.choice == 0 for p in predictions) / len(predictions)


FIRST_PLACE = ChoiceMetric(
    description="how often the first option is chosen",
    rows=(metric_row("first_place", unit="share"),),
    measure=first_place,
)
TOO_HIGH = reply_metric(
    lambda reply, references: 11.0, name="too_high", unit="points", low=0.0, high=10.0
)
T_3 = 3.182446305
"""Student's t for 95 % with three degrees of freedom."""
NAMES = ("seconds_off", "warmth", "brief", "plain")
REPLIES = {"q0": "10", "q1": "12.5", "q2": "2", "q3": "40"}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._NAMES, "metrics", dict(registry._NAMES["metrics"]))
    for name in (*NAMES, "FIRST_PLACE", "TOO_HIGH"):
        registry.register("metrics", name.lower(), f"{__name__}:{name}")


@pytest.fixture
def scored(make: Callable[..., Benchmark]) -> sn.Results:
    """Golds are 10: off by 0, 2.5, 8 and 30 seconds."""
    rows = [{"id": name, "question": f"How long is {name}?", "answer": ["10"]} for name in REPLIES]
    sn.evaluate(sn.Scripted(REPLIES), str(make(rows).folder), "vanilla", name="times")
    return sn.score("runs/times", metrics=NAMES)


def test_metrics_that_share_a_title_have_one_meaning_on_a_page() -> None:
    def shown(metric: str) -> Score:
        return Score("vanilla", "generation", "times", "q0", 0, metric, 1.0)

    def kind(reply: str, references: Sequence[str]) -> float:
        """How warm it is."""
        return len(reply)

    for name in ("kindness", "friendliness"):
        metric = reply_metric(kind, name=name, unit="points", title="tone")
        registry.register("metrics", name, metric)
    scores = [shown("kindness"), shown("friendliness"), shown("brief")]
    assert score_meanings(scores).count("Tone: How warm it is.") == 1
    assert score_meanings(scores[:2]) == "Tone: How warm it is."


def test_the_results_have_the_unit_the_direction_and_the_interval_that_were_declared(
    scored: sn.Results,
) -> None:
    rows = {row.metric: row for row in scored.rows if row.benchmark == "mine" and not row.slice}
    seconds, points, share, unsaid = (rows[name] for name in NAMES)
    assert (seconds.estimate.value, seconds.unit, seconds.better) == (
        pytest.approx(40.5 / 4),
        "seconds",
        "lower",
    )
    # Above a bound at 0 the variance grows with the mean: (mu - m)^2 = t^2 s^2 mu / m, whose greater root this is.
    mean, slope = 10.125, (T_3 * (seconds.estimate.stderr or 0)) ** 2 / 10.125
    assert seconds.estimate.high == pytest.approx(
        mean + slope / 2 + math.sqrt(slope * mean + slope**2 / 4)
    )
    # So much spread is that of 0.83 rare events.
    quantile = pytest.importorskip("scipy.stats", reason="waits for scipy").gamma.ppf
    assert seconds.estimate.low == pytest.approx(
        quantile(0.05, 1.959964**2 * mean / slope) * slope / 1.959964**2
    )
    assert (points.estimate.value, points.unit, points.better) == (
        pytest.approx((2 + 4 + 1 + 2) / 4),
        "points",
        "higher",
    )
    assert (share.estimate.value, share.unit) == (0.75, "share")
    assert 0.0 < (share.estimate.low or 0) < 0.75 < (share.estimate.high or 0) < 1.0  # a share's
    # The values of a plain function are shares.
    assert (unsaid.estimate.value, unsaid.unit, unsaid.better) == (
        pytest.approx(0.225),
        "share",
        "higher",
    )
    means = {row.metric for row in scored.rows if row.benchmark == "*" and row.dimension == "*"}
    assert {"warmth", "brief", "plain"} <= means and "seconds_off" not in means


def test_the_terminal_shows_units_and_directions(scored: sn.Results) -> None:
    console = Console(width=100, file=io.StringIO())
    for table in other_tables(prepare_reported_runs(scored.runs, scored.rows)):
        console.print(table)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    for words in (
        r"seconds off \(seconds, lower is better\) +10\.125 \[0\.314, 65\.378\] n=4",
        r"warmth of tone \(points\) +2\.250 \[",
        r"brief +75\.0% \[\d+\.\d, \d+\.\d\] n=4",
        r"plain +22\.5% \[",
    ):
        assert any(re.search(words, line) for line in lines), (words, lines)


def test_markdown_shows_a_table_each_with_its_unit_under_it(scored: sn.Results) -> None:
    text = scored.report("r.md").read_text("utf-8")
    parts = dict(part.split("\n", 1) for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:])
    assert "| 10.125 [0.314, " in parts["Seconds off by benchmark"]
    assert "\nSeconds, lower is better.\n" in parts["Seconds off by benchmark"]
    assert (
        "| 2.250 [" in parts["Warmth of tone by benchmark"]
        and "\nPoints.\n" in parts["Warmth of tone by benchmark"]
    )
    assert "| 75.0% [" in parts["Brief by benchmark"]
    assert "| 22.5% [" in parts["Plain by benchmark"]


def test_the_page_draws_each_on_an_axis_of_its_own(scored: sn.Results) -> None:
    page = scored.report("r.html").read_text("utf-8")
    found = re.findall(
        r'<svg class="chart"[^>]*aria-label="([^"]*)">\n(.*?)</svg>', page, re.DOTALL
    )
    charts: dict[str, str] = dict(found)
    seconds = charts["Seconds off by benchmark, generation"]
    assert ">seconds off (seconds, lower is better)</text>" in seconds
    ticks = [float(tick) for tick in re.findall(r'class="tick">([\d.]+)</text>', seconds)]
    assert ticks[0] == 0.0 and 40 <= ticks[-1] < 80
    assert "10.125 [0.314, " in seconds
    # Declared bounds are the axis, whatever the numbers are.
    points = charts["Warmth of tone by benchmark, generation"]
    assert re.findall(r'class="tick">([\d.]+)</text>', points)[-1] == "10"
    assert (
        re.findall(r'class="tick">(\d+%)</text>', charts["Brief by benchmark, generation"])[-1]
        == "100%"
    )


def test_csv_names_unit_and_direction_in_every_row(scored: sn.Results) -> None:
    rows = [
        row
        for row in csv.DictReader(io.StringIO(scored.report("r.csv").read_text("utf-8")))
        if row["benchmark"] == "mine" and not row["slice"]
    ]
    told = {row["metric"]: (row["unit"], row["better"]) for row in rows}
    assert told["seconds_off"] == ("seconds", "lower")
    assert told["warmth"] == ("points", "higher")
    assert told["brief"] == ("share", "higher")
    assert told["plain"] == ("share", "higher")


def test_a_strangers_metric_of_choices_is_given_the_predictions_of_a_question(
    questions: Benchmark,
) -> None:
    sn.evaluate("snellen:always-a", str(questions.folder), "vanilla", name="choices")
    results = sn.score("runs/choices", metrics=["first_place"])
    assert results.value("first_place", benchmark="mine") == 1.0


def test_a_strangers_metric_of_choices_leaves_open_questions_alone_and_says_why_it_has_no_value(
    make: Callable[..., Benchmark],
) -> None:
    """One question is open, one has no answer yet, one got no reply; the metric `never` has a value for none."""
    never = ChoiceMetric(
        description="",
        rows=(metric_row("never", unit="share"),),
        measure=lambda predictions, answer: None,
    )
    registry.register("metrics", "never", never)
    choice: dict[str, Any] = {"options": ["a", "b"], "answer": 0}
    rows = [
        {"id": "known", "question": "Which?", **choice},
        {"id": "hidden", "question": "Which other?", **choice, "answer": None},
        {"id": "failed", "question": "Which one?", **choice},
        {"id": "open", "question": "What?", "answer": "a tree"},
    ]
    broken = Response(error=Failure("server", "down"))
    model = sn.Scripted(lambda request: broken if request.sample_id == "failed" else "(A)")
    names = ("first_place", "never")
    sn.evaluate(model, str(make(rows).folder), "instability?m=3", name="some", error_budget=1.0)
    found = sn.score("runs/some", metrics=names).runs[0].benchmarks[0].scores
    told = {
        (s.sample_id, s.metric): (s.value, s.reason, s.detail, s.n_presentations) for s in found
    }
    assert {place: said for place, said in told.items() if place[1] in names} == {
        # The first option is the right one here.
        ("known", "first_place"): (pytest.approx(told["known", "accuracy"][0]), None, "", 3),
        ("known", "never"): (None, "metric undefined", "for this question", 3),
        **{("hidden", name): (None, "hidden answer", "", 1) for name in names},
        **{("failed", name): (None, "request failed", "server", 1) for name in names},
    }


def test_a_value_out_of_the_declared_bounds_is_refused(scored: sn.Results) -> None:
    with pytest.raises(
        DataError,
        match=r"metric too_high: 11, of mine q0, is outside its bounds 0 to 10; correct the metric",
    ):
        sn.score("runs/times", metrics=["too_high"])


@pytest.mark.parametrize("name", ["capability", "accuracy"])
def test_what_is_always_reported_is_not_asked_for(
    name: str, scored: sn.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["score", "runs/times", "--metric", name])
    assert f"{name} is always reported where it applies; remove it" in capsys.readouterr().err
    assert sn.score("runs/times", metrics=[name]).rows


def test_the_list_of_metrics_says_what_each_is_over_its_unit_and_direction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["list", "metrics", "--json"])
    out = capsys.readouterr().out
    assert (
        '{"metric":"seconds_off","over":"reply","unit":"seconds","better":"lower","what it is":"How far'
        in out
    )
    assert '"metric":"instability","over":"choices","unit":"nats","better":"lower"' in out


# --- Snellen's own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.names("metrics"))
def test_every_metric_declares_rows_that_are_found_by_their_names(name: str) -> None:
    metric = find_metric(name)
    assert metric.description and metric.rows
    for row in metric.rows:
        assert declared_row(row.name) == row
        assert row.low is None or row.high is None or row.low < row.high
        if row.interval == "proportion":
            assert (row.low, row.high) == (0.0, 1.0)
        for value, kind in (
            (row.interval, IntervalKind),
            (row.unparsed, UnparsedRule),
            (row.better, Better),
        ):
            assert value in get_args(kind)


def test_the_documentation_lists_what_is_given_unasked_as_it_is_declared() -> None:
    page = (ROOT / "docs" / "reference" / "metric-definitions.md").read_text("utf-8")
    table = page.partition("### Given unasked")[2].partition("\n#")[0]
    lines = [line.strip("|\n").split("|") for line in table.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line] for line in lines]
    listed = {
        name.strip("`"): (
            what,
            [(*row, better) for row in re.findall(r"`(\w+)` ([a-z ]+[a-z])", rows)],
        )
        for name, what, better, rows in cells
    }
    metrics = {name: find_metric(name) for name in registry.names("metrics")}
    asked = {"FIRST_PLACE", "TOO_HIGH"}
    assert listed == {
        name: (one.description, [(row.name, row.unparsed, row.better) for row in one.rows])
        for name, one in metrics.items()
        if name.upper() not in asked
        and one.computed_over in ("choices", "derived")
        and getattr(one, "measure", None) is None
    }


def test_the_documentation_has_every_registered_metric() -> None:
    page = (ROOT / "docs" / "reference" / "metric-definitions.md").read_text("utf-8")
    documented = set(re.findall(r"`([a-z0-9_]+)`", page))
    targets = registry.targets(
        "metrics"
    )  # those that tests register are objects, not names of places
    own = [name for name, target in targets.items() if str(target).startswith("snellen.")]
    assert len(own) > 100
    absent = [name for name in own if name not in documented]
    assert absent == []


ROWS_OF_CHOICES = {
    # Four presentations: right, right, and two refusals: two of four, two of two, all; kinds of 2 and 2, or 2, 1 and 1.
    "accuracy": ("accuracy", 2 / 4),
    "accuracy_of_parsed": ("accuracy of parsed replies", 1.0),
    "accuracy_lower": ("accuracy, unsure as wrong", 2 / 4),
    "accuracy_upper": ("accuracy, unsure or unparsed as right", 1.0),
    "unparsed_rate": ("unparsed rate (lower is better)", 2 / 4),
    "unsure_rate": ("unsure readings (lower is better)", 0.0),
    "hit_rate": ("hit rate", 2 / 4),
    "instability": ("instability (nats, lower is better)", math.log(2)),
    "legacy_instability": ("legacy instability (nats, lower is better)", 1.5 * math.log(2)),
}
ROWS_OF_ROTATIONS = {
    # Right, right, a refusal, right: with the unparsed one all would be right.
    "accuracy": ("accuracy", 1.0),
    "accuracy_of_parsed": ("accuracy of parsed replies", 1.0),
    "accuracy_lower": ("accuracy, unsure as wrong", 1.0),
    "accuracy_upper": ("accuracy, unsure or unparsed as right", 1.0),
    "unparsed_rate": ("unparsed rate (lower is better)", 0.0),
    "unsure_rate": ("unsure readings (lower is better)", 0.0),
    "hit_rate": ("hit rate", 1.0),
    "circular_accuracy": ("circular accuracy", 0.0),
    "circular_accuracy_of_parsed": ("circular accuracy of parsed replies", None),
    "circular_accuracy_lower": ("circular accuracy, unsure as wrong", 0.0),
    "circular_accuracy_upper": ("circular accuracy, unsure or unparsed as right", 1.0),
    "circular_drop": ("circular drop (lower is better)", 1.0),
    "consistency": ("consistency", 0.0),
}
ROWS_OF_LIKELIHOODS = {
    # Twice, the first option and the third are the most likely.
    "accuracy": ("accuracy", 1.0),
    "accuracy_of_parsed": ("accuracy of parsed replies", 1.0),
    "accuracy_lower": ("accuracy, unsure as wrong", 1.0),
    "accuracy_upper": ("accuracy, unsure or unparsed as right", 1.0),
    "unparsed_rate": ("unparsed rate (lower is better)", 0.0),
    "tie_rate": ("tie rate", 1.0),
    "instability": ("instability (nats, lower is better)", 0.0),
    "legacy_instability": ("legacy instability (nats, lower is better)", 0.0),
}


@pytest.mark.parametrize(
    ("protocol", "right", "rows"),
    [
        ("instability?m=4", (0, 1), ROWS_OF_CHOICES),
        ("circular?all_passes", (0, 1, 3), ROWS_OF_ROTATIONS),
        ("likelihood?m=2", (), ROWS_OF_LIKELIHOODS),
    ],
)
def test_every_metric_of_choices_of_one_question_by_hand_under_the_heading_that_it_declares(
    protocol: str,
    right: tuple[int, ...],
    rows: dict[str, tuple[str, float | None]],
    make: Callable[..., Benchmark],
) -> None:
    def reply(request: Request) -> str:
        place = request.variant.order.index(0)
        refusals = ("I'm sorry, I cannot tell.", "I'm sorry, but I can't help with that.")
        unread = refusals[request.variant.test % 2]
        return f"({request.variant.labels[place]})" if request.variant.test in right else unread

    model = sn.Scripted(reply, scores=lambda request: [-1.0, -2.0, -1.0, -3.0])
    results = sn.evaluate(model, str(make(small.rows(1)).folder), protocol)
    found = {score.metric: score for score in results.runs[0].benchmarks[0].scores}
    measured = {name: (declared_row(name).heading, score.value) for name, score in found.items()}
    assert measured == {
        name: (heading, value and pytest.approx(value)) for name, (heading, value) in rows.items()
    }


def test_an_entropy_that_was_never_seen_may_be_as_great_as_its_kinds_of_answer_allow(
    make: Callable[..., Benchmark],
) -> None:
    """Twelve questions about six images, none unstable: as 5 % of samples are if a share q is, (1 - q)^6 = 0.05.

    Four presentations of two options: two, one and one of three kinds with "unparsed"; four kinds of unparsed texts.
    """
    model = sn.Scripted(
        lambda request: f"({request.variant.labels[request.variant.order.index(0)]})"
    )
    results = sn.evaluate(model, str(make(small.rows(12, options=2)).folder), "instability?m=4")
    unseen = 1 - 0.05 ** (1 / 6)
    for metric, greatest in (("instability", 1.5 * math.log(2)),):
        [row] = [
            r for r in results.rows if r.metric == metric and r.benchmark == "mine" and not r.slice
        ]
        assert (row.estimate.value, row.estimate.low) == (0.0, 0.0)
        assert row.estimate.high == pytest.approx(unseen * greatest)


def test_rows_that_stand_beside_a_headline_name_it() -> None:
    rows = [
        row
        for name in registry.names("metrics")
        for row in find_metric(name).rows
        if row.secondary_to
    ]
    beside = {(row.name, row.secondary_to, row.label) for row in rows}
    assert beside == {
        ("legacy_instability", "instability", ""),
        *((f"{name}_of_parsed", name, "of parsed") for name in ("accuracy", "circular_accuracy")),
        *((f"{name}_lower", name, "at least") for name in ("accuracy", "circular_accuracy")),
        *((f"{name}_upper", name, "at most") for name in ("accuracy", "circular_accuracy")),
    }


def test_each_metric_of_choices_that_a_run_has_not_says_why(questions: Benchmark) -> None:
    results = sn.evaluate("snellen:oracle", str(questions.folder), ("vanilla", "likelihood"))
    lines = method_rows(prepare_reported_runs(results.runs, results.rows))
    missing = {
        (one.method, row): absence_reason(one, row)
        for one in lines
        for row in CHOICE_METRIC_NAMES
        if not one.overall(row)
    }
    rotated = ("circular_accuracy", "circular_drop", "consistency")
    none = "no circular protocol in this run, or no questions that it applies to"
    same = "likelihood does not show the options, so all rotations are one request"
    several = "needs several presentations of a question, e.g. instability?m=5"
    assert missing == {
        **{("generation", row): none for row in rotated},
        **{("likelihood", row): same for row in rotated},
        ("generation", "instability"): several,
        ("likelihood", "instability"): several,
        ("generation", "tie_rate"): "not measured by the protocols of this run",
        (
            "likelihood",
            "unsure_rate",
        ): "the likelihood method has no replies to read",
        (
            "likelihood",
            "hit_rate",
        ): "the hit rate is about replies, and a likelihood has no reply",
    }


# --- means and ranks ---------------------------------------------------------------------------------------------


def dimension_benchmarks(make: Callable[..., Benchmark]) -> list[str]:
    """CG is measured by a share, Desc in seconds."""
    choices = [
        {"id": f"q{i}", "question": f"Which is {i}?", "options": ["a", "b"], "answer": 0}
        for i in range(4)
    ]
    times = [{"id": f"q{i}", "question": f"How long is {i}?", "answer": ["10"]} for i in range(4)]
    made = (
        make(choices, name="choices", dimension="CG"),
        make(times, name="times", dimension="Desc", metrics=("seconds_off",)),
    )
    return [str(benchmark.folder) for benchmark in made]


def answering(name: str, mark: str, seconds: str) -> sn.Scripted:
    return sn.Scripted(lambda request: mark if request.variant.labels else seconds, name=name)


def test_where_scales_differ_there_is_no_overall_mean_and_models_are_compared_by_their_average_rank(
    make: Callable[..., Benchmark],
) -> None:
    folders = dimension_benchmarks(make)
    models = [
        answering("good", "(A)", "11"),
        answering("fast", "(B)", "10"),
        answering("bad", "(B)", "30"),
    ]
    results = sn.evaluate(models, folders, "vanilla")
    rows = {
        (row.model, row.dimension): row
        for row in results.rows
        if row.metric in (CAPABILITY, HEADLINE)
    }
    assert rows["good", "*"].estimate.value is None
    why = rows["good", "*"]
    assert (why.reason, why.detail) == ("scales differ", "accuracy, seconds off")
    assert (
        rows["good", "Desc"].estimate.value,
        rows["good", "Desc"].unit,
        rows["good", "Desc"].better,
    ) == (
        1.0,
        "seconds",
        "lower",
    )
    console = Console(width=120, file=io.StringIO())
    console.print(first_tables(prepare_reported_runs(results.runs, results.rows))[0])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    [ranks] = [line for line in shown.splitlines() if line.strip().startswith("mean rank")]
    # The benchmark with options: 1, 2.5, 2.5. The other, where less is better: 2, 1, 3.
    assert re.findall(r"\d\.\d{2}", ranks) == ["1.50", "1.75", "2.75"]
    assert [results.value("average_rank", model=name) for name in ("good", "fast", "bad")] == [
        1.5,
        1.5,
        2.5,
    ]
    text = results.report("r.md").read_text("utf-8")
    assert re.search(r"\| average rank \| 1\.500 \[no interval\] n=8 \| 1\.500 .* \| 2\.500 ", text)
    rows_of_csv = csv.DictReader(io.StringIO(results.report("r.csv").read_text("utf-8")))
    assert {
        row["model"]: row["value"] for row in rows_of_csv if row["metric"] == "average_rank"
    } == {
        "good": "1.5",
        "fast": "1.5",
        "bad": "2.5",
    }


def test_shares_have_an_overall_mean_and_one_model_has_no_rank(
    questions: Benchmark, make: Any
) -> None:
    folders = dimension_benchmarks(make)[:1]
    results = sn.evaluate(answering("one", "(A)", "10"), folders, "vanilla")
    assert results.value() == 1.0
    assert "average rank" not in results.report("r.md").read_text("utf-8")


def test_equal_values_share_the_better_rank() -> None:
    assert competition_ranks([3.0, 1.0, 3.0, 2.0]) == [1, 4, 1, 3]
    assert competition_ranks([3.0, 1.0, 3.0, 2.0], "lower") == [3, 1, 3, 2]
