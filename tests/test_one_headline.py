"""A run has one number: the first sentence, the tables, the viewer, JSON and Python agree, and it covers everything."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console

import archived_tables
import modern_tables
import small
import snellen as sn
from place_servers import HubServer, Repo
from servers import start_server
from small import command
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue.places import HubSource, locked_commit
from snellen.common.seeds import rng_for
from snellen.records import Request
from snellen.report.findings import findings
from snellen.report.markdown import markdown_report
from snellen.report.reported_runs import prepare_reported_runs
from snellen.report.table import AbsentCell, Table
from snellen.report.terminal import first_tables, plain_table
from snellen.scoring.scored_run import flat_row
from snellen.viewing.run_summary import headline_of
from test_every_source import point_at
from view_runs import serving

# --- benchmarks of every kind ----------------------------------------------------------------------------------------


def question(name: str, number: int, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"{name}{number:03d}",
        "question": f"Which animal is number {number} of {name}?",
        "answer": "cat",
        "image": small.cell(number),
        **facts,
    }


def closed(name: str, count: int) -> list[dict[str, Any]]:
    options = ["cat", "dog", "horse", "cow"]
    return [question(name, i, options=options) for i in range(count)]


def opened(name: str, count: int, **facts: Any) -> list[dict[str, Any]]:
    return [question(name, i, **facts) for i in range(count)]


KINDS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "closed": (closed("closed", 24), {}),
    "open": (opened("open", 36), {"formulation": "text"}),
    "mixed": (
        [*closed("mixed", 12), *opened("mixed", 24)[12:]],
        {"formulation": "text"},
    ),
    "graded": (opened("graded", 18), {"formulation": "text", "metrics": ("anls",)}),
    "grouped": (
        [question("grouped", i, group=f"g{i // 3}") for i in range(18)],
        {
            "formulation": "text",
            "metrics": ("typed_match", "group_accuracy"),
            "headline": "group_accuracy",
        },
    ),
}
"""By name the rows of a benchmark, and what its entry says."""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Benchmark]:
    folder = tmp_path_factory.mktemp("kinds")
    return {
        name: small.built(rows, folder / name, name=name, **facts)
        for name, (rows, facts) in KINDS.items()
    }


def is_right(model: str, share: float, sample: str) -> bool:
    return rng_for(sample, model, "right", 0).random() < share


def answering(model: str, shares: Mapping[str, float]) -> sn.Scripted:
    """A model that is right on about this share of each benchmark."""

    def reply(request: Request) -> str:
        right = is_right(model, shares[request.benchmark], request.sample_id)
        if request.variant.labels:
            return f"({request.variant.labels[request.variant.order.index(0 if right else 1)]})"
        return "cat" if right else "zebra"

    return sn.Scripted(reply, name=model)


def expected_headline(name: str, model: str, share: float) -> float:
    """The headline of a benchmark by hand: the share of right questions, or of groups all of whose are right."""
    rows, _ = KINDS[name]
    rights = {row["id"]: is_right(model, share, row["id"]) for row in rows}
    if name != "grouped":
        return statistics.fmean(rights.values())
    groups: dict[str, list[bool]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(rights[row["id"]])
    return statistics.fmean(all(members) for members in groups.values())


def printed(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:.1f}%"


# --- every form has the same number ----------------------------------------------------------------------------------


SHARES = st.sampled_from([0.0, 0.3, 0.7, 1.0])


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(SHARES, SHARES), min_size=5, max_size=5),
)
def test_every_form_has_the_number_and_the_sign_of_the_sentence_is_that_of_the_row(
    kinds: Mapping[str, Benchmark],
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str],
    shares: list[tuple[float, float]],
) -> None:
    first = dict(zip(KINDS, (pair[0] for pair in shares), strict=True))
    second = dict(zip(KINDS, (pair[1] for pair in shares), strict=True))
    folders = [str(kinds[name].folder) for name in names]
    runs = tmp_path_factory.mktemp("runs")
    results = sn.evaluate(
        [answering("A", first), answering("B", second)], folders, "vanilla", runs=runs
    )

    for model, own in (("A", first), ("B", second)):
        by_hand = [expected_headline(name, model, own[name]) for name in names]
        value = statistics.fmean(by_hand)
        assert results.value(model=model) == pytest.approx(value)
        for name, headline in zip(names, by_hand, strict=True):
            assert results.value(benchmark=name, model=model) == pytest.approx(headline)

        [run] = [run for run in results.runs if run.manifest.model == model]
        check_every_form(sn.Results([run]), printed(value), names)
        check_sentence(sn.Results([run]), value, model, own, names)

    check_comparison(results)


def check_every_form(results: sn.Results, number: str, names: list[str]) -> None:
    reported_runs = prepare_reported_runs(results.runs, results.rows)
    [row] = [flat_row(row) for row in results.rows if row.metric == "headline"]
    assert printed(row["value"]) == number

    console = Console(width=200, file=io.StringIO())
    console.print(first_tables(reported_runs)[0])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(names) < 2 or "mean over benchmarks" in shown
    last = [line for line in shown.splitlines() if "n=" in line][-1]
    assert number in last

    report = markdown_report(reported_runs)
    table = report.partition("### Result\n\n")[2].partition("\n\n")[0].splitlines()
    assert number in table[-1]
    assert [line.split("|")[1].strip() for line in table[2:]][: len(names)] == names

    headline = headline_of(results.runs[0], results.rows)
    assert headline is not None and printed(headline.estimate.value or 0.0) == number
    assert number in findings(reported_runs)[0]


def check_sentence(
    results: sn.Results, value: float, model: str, shares: Mapping[str, float], names: list[str]
) -> None:
    """A share of questions answered correctly is right replies over questions."""
    sentence = findings(prepare_reported_runs(results.runs, results.rows))[0]
    said = re.search(r"answers ([\d.]+)% of the questions correctly", sentence)
    if said is None:
        return
    ids = [row["id"] for name in names for row in KINDS[name][0]]
    benchmark_of = {row["id"]: name for name in names for row in KINDS[name][0]}
    right = sum(is_right(model, shares[benchmark_of[sample]], sample) for sample in ids)
    assert said[1] == f"{round(100 * right / len(ids), 1):.1f}"


def check_comparison(results: sn.Results) -> None:
    comparison = results.compare(resamples=0)
    rows = [each for each in comparison.differences if each.scope == "overall"]
    rows = rows or [each for each in comparison.differences if each.scope == "benchmark"]
    [overall] = rows
    difference = overall.difference.value or 0.0
    assert difference == pytest.approx(
        (results.value(model="A") or 0) - (results.value(model="B") or 0)
    )
    sentence = findings(prepare_reported_runs(results.runs, results.rows))[0]
    said = re.match(r"(A|B) is better than (A|B) by", sentence)
    if said:
        assert (said[1] == "A") == (difference > 0)
    elif "gave the same reply to every common question" in sentence:
        assert difference == 0
    else:
        assert "not significantly different" in sentence


@settings(max_examples=6, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True),
    st.lists(SHARES, min_size=5, max_size=5),
)
def test_written_files_and_served_pages_have_the_number_too(
    kinds: Mapping[str, Benchmark],
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str],
    shares: list[float],
) -> None:
    share_of = dict(zip(KINDS, shares, strict=True))
    folder = tmp_path_factory.mktemp("files")
    results = sn.evaluate(
        answering("A", share_of),
        [str(kinds[name].folder) for name in names],
        "vanilla",
        runs=folder / "runs",
        name="run",
    )
    value = statistics.fmean(expected_headline(name, "A", share_of[name]) for name in names)
    number = printed(value)

    page = results.report(folder / "report.html").read_text()
    head, _, body = page.partition("</header>")
    first_table = body.partition("<tbody>")[2].partition("</tbody>")[0]
    assert number in head and number in first_table
    markdown = results.report(folder / "report.md").read_text()
    assert number in markdown.partition("### Result\n\n")[2].partition("\n\n")[0].splitlines()[-1]

    written = json.loads(results.report(folder / "report.json").read_text())
    [row] = [row for row in written if row["metric"] == "headline"]
    assert row["value"] == pytest.approx(value)
    with results.report(folder / "report.csv").open(newline="") as lines:
        [row] = [row for row in csv.DictReader(lines) if row["metric"] == "headline"]
    assert float(row["value"]) == pytest.approx(value)

    with serving(folder / "runs", index=folder / "index.sqlite") as client:
        for address in ("/run?run=run", "/"):
            assert number in re.sub(r"<[^>]*>", "", client.get(address).text), address


# --- the case of a review --------------------------------------------------------------------------------------------


def case(folder: Path, *, together: bool) -> list[Benchmark]:
    rows = [*closed("q", 48), *opened("q", 144)[48:]]
    if together:
        return [small.built(rows, folder / "q", name="q", formulation="text")]
    return [
        small.built(rows[:48], folder / "options", name="options"),
        small.built(rows[48:], folder / "words", name="words", formulation="text"),
    ]


def best_on_options(request: Request) -> str:
    return "(A)" if request.variant.labels else "zebra"


def best_on_words(request: Request) -> str:
    number = int(request.sample_id[1:])
    return ("(A)" if number % 2 else "(B)") if request.variant.labels else "cat"


@pytest.mark.parametrize("together", [True, False])
def test_a_model_that_is_right_on_options_alone_is_not_called_better(
    tmp_path: Path, together: bool
) -> None:
    """A is right on 48 questions with options and wrong on 96 open ones; B is right on 24 of 48 and on all 96."""
    folders = [str(benchmark.folder) for benchmark in case(tmp_path, together=together)]
    models = [sn.Scripted(best_on_options, name="A"), sn.Scripted(best_on_words, name="B")]
    results = sn.evaluate(models, folders, "vanilla", runs=tmp_path / "runs")
    assert findings(prepare_reported_runs(results.runs, results.rows))[0].startswith(
        "B is better than A by "
    )

    values = {"A": 48 / 144, "B": 120 / 144} if together else {"A": (1 + 0) / 2, "B": (0.5 + 1) / 2}
    for name, value in values.items():
        [run] = [run for run in results.runs if run.manifest.model == name]
        assert results.value(model=name) == pytest.approx(value)
        alone = sn.Results([run])
        opening = "answers" if together else "scores"
        sentence = findings(prepare_reported_runs(alone.runs, alone.rows))[0]
        assert sentence.startswith(f"{name} {opening} {printed(value)}")


# --- three benchmarks of today from a hub ----------------------------------------------------------------------------


@pytest.fixture
def three_on_a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    repos: dict[str, Repo] = {}
    for name in ("mmstar", "mmmu", "docvqa"):
        folder = modern_tables.write(name, tmp_path / "files" / name)
        files: dict[str, Any] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        [place] = [
            each
            for each in entries()[f"modern/{name}"].source.places
            if isinstance(each, HubSource)
        ]
        commit = locked_commit(place)
        repos[place.repo] = Repo(files, older={commit: files} if commit else {})
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with HubServer(repos) as server:
        point_at(server, monkeypatch)
        yield


def test_three_benchmarks_from_a_hub_fit_a_screen_with_a_number_each(
    three_on_a_hub: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MMStar has options, MMMU some, DocVQA none; their headlines are three different metrics."""
    monkeypatch.setattr("snellen.cli.show.console.width", 100)
    names = ["modern/mmstar", "modern/mmmu", "modern/docvqa"]
    code, built, err = command(capsys, "build", *names)
    assert code == 0, built + err
    code, out, _ = command(capsys, "run", "snellen:always-a", *names, "--name", "three")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 100

    code, rows, _ = command(capsys, "score", "runs/three", "--json")
    headlines = [json.loads(row) for row in rows.splitlines()]
    [overall] = [row for row in headlines if row["metric"] == "headline"]
    metrics = dict(zip(names, ("accuracy", "overall_accuracy", "anls"), strict=True))
    values = {
        row["benchmark"]: row["value"]
        for row in headlines
        if metrics.get(row["benchmark"]) == row["metric"] and not row["slice"]
    }
    assert overall["value"] == pytest.approx(statistics.fmean(values.values()))
    for name, value in values.items():
        [line] = [line for line in lines if line.startswith(name)]
        assert f"{100 * value:.1f}%" in line
    assert f"scores {100 * overall['value']:.1f}% on average over 3 benchmarks" in out

    code, _, _ = command(capsys, "run", "snellen:uniform", *names, "--name", "other")
    assert code == 0
    code, out, _ = command(capsys, "compare", "runs/three", "runs/other")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 100
    assert all(any(line.startswith(name) for line in lines) for name in names)


def test_the_report_of_a_run_behind_a_server_has_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The label of such a model leaves out the address that the manifest has."""
    monkeypatch.chdir(tmp_path)
    small.built(closed("q", 12), tmp_path / "made", name="made")
    with start_server() as server:
        code, _, err = command(
            capsys, "run", f"openai:toy@{server.url}", "made", "--name", "served"
        )
    assert code == 0, err
    [overall] = [
        row
        for row in json.loads((tmp_path / "runs/served/results.json").read_text())
        if row["metric"] == "headline"
    ]
    page = (tmp_path / "runs/served/report.html").read_text()
    assert f"openai:toy answers {printed(overall['value'])} of the questions correctly" in page


def test_an_error_of_zero_is_not_printed_next_to_a_wide_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the two questions about each image one is right: the groups do not vary, and the interval is wide."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {**row, "image": small.cell(number // 2)} for number, row in enumerate(closed("pair", 22))
    ]
    benchmark = small.built(rows, tmp_path / "made", name="pair")

    def reply(request: Request) -> str:
        option = int(request.sample_id.removeprefix("pair")) % 2
        return f"({request.variant.labels[request.variant.order.index(option)]})"

    sn.evaluate(sn.Scripted(reply), str(benchmark.folder), "vanilla", name="pairs")
    code, out, _ = command(capsys, "score", "runs/pairs", "--json")
    assert code == 0
    [accuracy] = [
        row
        for row in map(json.loads, out.splitlines())
        if (row["metric"], row["benchmark"]) == ("accuracy", "pair")
    ]
    assert (accuracy["value"], accuracy["stderr"]) == (0.5, None)
    assert accuracy["high"] - accuracy["low"] > 0.3


# --- means that papers print -----------------------------------------------------------------------------------------


def test_a_mean_over_a_tag_gives_its_values_equal_weight(tmp_path: Path) -> None:
    """Three values of a tag with 10, 4 and 2 questions; two of them begin alike and count as one."""
    rows = []
    for place, (task, count) in enumerate((("count", 10), ("left-easy", 4), ("left-hard", 2))):
        for i in range(count):
            row = question("q", 100 * place + i, tag_task=task)
            if task == "count":
                row["options"] = ["cat", "dog", "horse", "cow"]
            rows.append(row)
    benchmark = small.built(
        rows,
        tmp_path / "made",
        name="made",
        formulation="text",
        mean_over="task",
        counted_together=("left",),
    )
    right = {"q000", "q001", "q100", "q200", "q201"}

    def reply(request: Request) -> str:
        if request.variant.labels:
            return "(A)" if request.sample_id in right else "(B)"
        return "cat" if request.sample_id in right else "zebra"

    results = sn.evaluate(
        sn.Scripted(reply), str(benchmark.folder), "vanilla", runs=tmp_path / "runs"
    )
    assert results.value("question_score", benchmark="made") == pytest.approx(5 / 16)
    assert results.value() == pytest.approx((2 / 10 + (1 / 4 + 2 / 2) / 2) / 2)
    [row] = [
        row for row in results.rows if (row.metric, row.benchmark) == ("published_mean", "made")
    ]
    assert (row.estimate.n, row.estimate.groups) == (16, 16)
    assert row.estimate.low < row.estimate.value < row.estimate.high

    [line] = [
        line
        for reported_run in prepare_reported_runs(results.runs, results.rows)
        for line in reported_run.method_rows
    ]
    assert line.chances["made"] == pytest.approx((1 / 4 + 0) / 2)


def test_a_mean_of_rows_is_the_mean_of_the_rows_it_names(tmp_path: Path) -> None:
    rows = [
        question("q", i, group=f"g{i // 4}", tag_question=str(i % 2), tag_figure=str(i // 2 % 2))
        for i in range(40)
    ]
    parts = ("typed_match", "same_image_accuracy", "same_question_accuracy")
    benchmark = small.built(
        rows,
        tmp_path / "made",
        name="made",
        formulation="text",
        metrics=parts,
        groups={"question": "question", "image": "figure"},
        mean_of=parts,
    )
    results = sn.evaluate(
        answering("m", {"made": 0.7}), str(benchmark.folder), "vanilla", runs=tmp_path / "runs"
    )
    values = [results.value(part, benchmark="made") or 0.0 for part in parts]
    assert len(set(values)) == 3
    assert results.value() == pytest.approx(statistics.fmean(values))


PUBLISHED = {
    "blink": "task",
    "cv-bench-2d": "pictures",
    "mlvu": "kind",
    "vsi-bench": "kind",
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_entries_with_a_published_mean_have_it_as_their_headline(name: str, tmp_path: Path) -> None:
    """Recomputed from the scores of single questions: a mean over tasks of the mean over their questions."""
    if name in modern_tables.TABLES:
        source = modern_tables.write(name, tmp_path / "hub")
    else:
        source = tmp_path / "hub"
        source.mkdir()
        archived_tables.MAKERS[name](source)
        for archive in source.rglob("*.zip"):
            zipfile.ZipFile(archive).extractall(archive.parent)
    spec = entries()[f"modern/{name}"]
    benchmark = build_benchmark(spec.from_hub(), source=source, to=tmp_path / "built")
    results = sn.evaluate(
        "snellen:always-a", str(benchmark.folder), "vanilla", runs=tmp_path / "runs"
    )

    tasks: dict[str, list[float]] = {}
    tags = {sample.id: sample.tags for sample in benchmark.samples()}
    for score in results.scores().to_dicts():
        if score["metric"] not in ("accuracy", "mean_relative_accuracy"):
            continue
        tasks.setdefault(tags[score["sample_id"]][PUBLISHED[name]], []).append(score["value"])
    means = {task: statistics.fmean(values) for task, values in tasks.items()}
    directions = [value for task, value in means.items() if task.startswith("object_rel_direction")]
    others = [value for task, value in means.items() if not task.startswith("object_rel_direction")]
    expected = [*others, statistics.fmean(directions)] if directions else others
    assert results.value() == pytest.approx(statistics.fmean(expected))
    assert results.value(benchmark=benchmark.name) == results.value()


def test_a_note_is_as_wide_as_the_terminal_and_not_as_its_table() -> None:
    """All that a run of failed requests has is an empty cell, and the reason for it."""
    reason = "no question was answered; see the errors"
    table = Table("", ("a", "b"), (("x", AbsentCell(reason)),))
    console = Console(width=60, file=io.StringIO())
    console.print(plain_table(table))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[-1].strip() == f"\N{SUPERSCRIPT ONE} {reason}"


def test_figures_that_cannot_be_made_are_refused_before_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sn.evaluate("snellen:oracle", "eyechart/colour", limit=2, name="x", report=False)
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    words = ("report", "runs/x", "-o", "r.md", "--figures", "figs", "--figure-format", "pdf")
    code, _, err = small.command(capsys, *words)
    assert code == 2 and "needs the package cairosvg" in err
    assert not (tmp_path / "r.md").exists()
