"""Reports: every number with its n and interval, nothing of a reply taken for markup, nothing fetched."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import small
import snellen as sn
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.records import Estimate, Failure
from snellen.report.axes import ChartAxis, PlotPoint
from snellen.report.interval_chart import IntervalRow, interval_chart
from snellen.report.markdown import escape_markdown
from snellen.report.number_text import figure_text
from snellen.report.rendering import escaped, standalone_svg
from snellen.report.report_section import ReportSection
from snellen.report.reported_runs import ReportedRun, prepare_reported_runs
from snellen.report.samples import OUTCOMES, GalleryLimits, choose_gallery
from snellen.report.summary import summary_rows
from snellen.report.table import AbsentCell, NumberCell, Table
from snellen.report.terminal import first_tables, other_tables

NASTY = "</script><img src=x onerror=alert(1)>|`**\x00\u202e\"'&amp;"
VOID = {"meta", "img", "br", "input", "link", "hr"}
FIGURE = (
    r"-?\d+\.\d+%? \[(?:-?\d+\.\d, -?\d+\.\d|-?\d+\.\d{3}, -?\d+\.\d{3}|no interval)\] n=[\d,]+"
)


class Page(HTMLParser):
    """Parses a report; fails on elements that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        place = {"script": self.scripts, "style": self.styles}.get(
            self.open[-1] if self.open else "", self.text
        )
        place.append(data)

    def attributes(self, tag: str, name: str) -> list[str | None]:
        return [attrs.get(name) for found, attrs in self.tags if found == tag and name in attrs]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def four(make: Callable[..., Benchmark]) -> str:
    """Four questions, an image each; the first option is always right."""
    return str(make([{**row, "answer": 0} for row in small.rows(4, pictures=4)]).folder)


def mixed(request: sn.Request) -> str | sn.Response:
    """Right, wrong, unparsed, lost."""
    replies: dict[str, str | sn.Response] = {
        "q000": "(A)",
        "q001": "(B)",
        "q002": "I'm sorry, I cannot tell.",
        "q003": sn.Response(error=Failure("timeout", "no answer in 60 s", 3)),
    }
    return replies[request.sample_id]


def read(results: sn.Results, name: str = "report.html") -> str:
    return results.report(name).read_text("utf-8")


def test_the_terminal_shows_what_else_was_measured_by_benchmark(
    make: Callable[[list[dict[str, Any]]], Benchmark],
) -> None:
    rows = [
        {"id": f"q{i}", "question": f"What is {i}?", "answer": ["a dog runs fast"]}
        for i in range(3)
    ]
    made = str(make(rows).folder)
    sn.evaluate(sn.Scripted(lambda request: "a dog runs fast"), made, "vanilla", name="texts")
    results = sn.score("runs/texts", metrics=["bleu_4", "pope"])
    [shown] = other_tables(prepare_reported_runs(results.runs, results.rows))
    console = Console(width=80, file=io.StringIO())
    console.print(shown)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    [bleu] = [line for line in lines if "BLEU-4" in line]
    assert "100.0%" in bleu and "n=3" in bleu and "0 / 0" in bleu
    # Not a yes-or-no question: one line says that nothing was counted, and the rows are all in results.json.
    [pope] = [line for line in lines if "yes-no" in line]
    assert "n=0" in pope and "3 / 0" in pope
    assert (
        sum(
            row.metric.startswith("pope_") and row.benchmark == "mine" and not row.slice
            for row in results.rows
        )
        == 6
    )
    choices = [row for row in results.rows if row.metric == "accuracy"]
    assert other_tables(prepare_reported_runs(results.runs, choices)) == []


def test_summary_of_four_replies_is_what_a_pencil_finds(four: str) -> None:
    results = sn.evaluate(sn.Scripted(mixed), four, "vanilla", error_budget=1.0)
    [row] = summary_rows(results.runs, results.rows)
    assert (row.model, row.method, row.unscored, row.errors) == (
        "snellen:scripted",
        "generation",
        0,
        1,
    )
    assert isinstance(row.unparsed, NumberCell) and row.unparsed.text.startswith(
        "33.3% [1.7, 86.5] n=3"
    )
    assert isinstance(row.accuracy, NumberCell)
    # Of three the 5 % quantile of Beta(1, 3) and the 95 % one of Beta(2, 2), and of 1 of 2 those of Beta(1, 2), (2, 1).
    # The refusal is read with a probability near 1, which makes the headline's interval a little wider.
    headline, *companions = row.accuracy.text.split("; ")
    bounds = re.fullmatch(r"33\.3% \[(1\.\d), (86\.\d)\] n=3", headline)
    assert bounds is not None and float(bounds[1]) <= 1.7 and float(bounds[2]) >= 86.5
    assert companions == [
        "of parsed 50.0% [2.5, 97.5] n=2",
        "at least 33.3% [1.7, 86.5] n=3",
        "at most 66.7% [13.5, 98.3] n=3",
    ]
    assert isinstance(row.hit_rate, NumberCell)
    assert row.hit_rate.text.startswith("66.7% [13.5, 98.3] n=3")
    assert row.circular_accuracy == AbsentCell(
        "no circular protocol in this run, or no questions that it applies to"
    )
    assert row.instability == AbsentCell(
        "needs several presentations of a question, e.g. instability?m=5"
    )


def test_each_dash_of_a_likelihood_has_its_reason(questions: Benchmark) -> None:
    results = sn.evaluate("snellen:oracle", str(questions.folder), ["circular", "likelihood"])
    spoken, likely = summary_rows(results.runs, results.rows)
    assert isinstance(spoken.circular_accuracy, NumberCell)
    assert "one request" in likely.circular_accuracy.note
    assert "no reply" in likely.hit_rate.note
    text = read(results, "r.md")
    assert "| snellen:oracle | likelihood | 100.0%" in text
    assert "¹ fewer than 10 images (or dialogues, or questions without an image)" in text
    assert "² needs several presentations" in text
    assert "³ likelihood does not show the options" in text


def test_accuracy_comes_from_the_protocol_that_asks_most_often(questions: Benchmark) -> None:
    protocols = ["circular", "vanilla", "instability?m=2", "instability?m=4"]
    results = sn.evaluate("snellen:uniform", str(questions.folder), protocols)
    [row] = summary_rows(results.runs, results.rows)
    assert isinstance(row.accuracy, NumberCell)
    assert row.accuracy.estimate.value == results.value("accuracy", protocol="instability?m=4")
    assert (
        "Under generation: accuracy from instability?m=4 and circular accuracy from circular."
        in read(results, "r.md")
    )


def test_chance_is_the_mean_over_benchmarks_of_one_over_options(
    make: Callable[..., Benchmark],
) -> None:
    folders = [str(make(small.rows(6, options=k), name=f"k{k}").folder) for k in (2, 4)]
    results = sn.evaluate("snellen:oracle", folders, "vanilla")
    assert "gives 37.5% accuracy" in read(results, "r.md")
    assert "gives 37.5% accuracy" in Page(read(results)).words


def test_a_dimension_names_each_models_own_chance_where_they_were_asked_other_benchmarks(
    make: Callable[..., Benchmark],
) -> None:
    two, four = (
        str(make(small.rows(6, options=k), name=f"k{k}", dimension="FG").folder) for k in (2, 4)
    )
    first, second = (
        sn.evaluate("snellen:oracle", [two, four], "vanilla"),
        sn.evaluate("snellen:always-a", two, "vanilla"),
    )
    report = read(sn.Results([*first.runs, *second.runs]), "r.md")
    assert "| fine-grained perception (FG) | 37.5% to 50.0% | 100.0%" in report
    assert (
        "for the questions of each model: 37.5% (snellen:oracle), 50.0% (snellen:always-a)."
        in report
    )
    assert "% to " not in read(first, "r.md")


def test_a_range_of_chance_levels_begins_with_the_lower_number(
    make: Callable[..., Benchmark],
) -> None:
    four = make(small.rows(6), name="four")
    twenty_options = [f"animal {number}" for number in range(20)]
    twenty = make([{**row, "options": twenty_options} for row in small.rows(6)], name="twenty")
    of_four = sn.evaluate("snellen:oracle", str(four.folder), "vanilla")
    of_twenty = sn.evaluate("snellen:always-a", str(twenty.folder), "vanilla")
    report = read(sn.Results([*of_four.runs, *of_twenty.runs]), "r.md")
    first_table = report.partition("## Result")[2].partition("###")[2].partition("###")[0]
    assert re.findall(r"\| (\S+ to \S+) \|", first_table) == ["5.0% to 25.0%"]


@pytest.mark.parametrize("width", [80, 100, 120, 150, 200])
def test_terminal_never_breaks_a_number(questions: Benchmark, width: int) -> None:
    results = sn.evaluate(
        ["snellen:oracle", "snellen:always-a"], str(questions.folder), ["instability", "circular"]
    )
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    for table in first_tables(prepare_reported_runs(results.runs, results.rows)):
        console.print(table)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    figures = [
        interval for line in lines for interval in re.findall(r"\[\d+\.\d+, \d+\.\d+\]", line)
    ]
    # Two headlines; circular accuracy and instability of both.
    assert len(figures) == 2 + 4
    assert sum(line.count("[") for line in lines) == 6
    assert sum(line.count("n=12") for line in lines) == 6


def test_terminal_takes_no_markup_from_a_model_name(four: str) -> None:
    results = sn.evaluate(sn.Scripted({}, name="[red]name[/nope]"), four, "vanilla")
    console = Console(width=200, file=io.StringIO())
    for table in first_tables(prepare_reported_runs(results.runs, results.rows)):
        console.print(table)
    assert "[red]name[/nope]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_another_suffix_is_refused_with_those_that_exist(four: str) -> None:
    results = sn.evaluate("snellen:oracle", four)
    with pytest.raises(
        sn.DataError,
        match=r"report\.pdf: a report is written as one of \.html, \.md, \.tex, \.csv, \.json",
    ):
        results.report("report.pdf")


def test_csv_json_and_parquet_hold_every_row(questions: Benchmark) -> None:
    results = sn.evaluate(
        "snellen:uniform", str(questions.folder), ["instability?m=2", "likelihood"]
    )
    frame = results.table(slices=True).to_dicts()
    assert json.loads(read(results, "r.json")) == frame
    rows = list(csv.DictReader(io.StringIO(read(results, "r.csv"))))
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in frame] == rows
    table = pl.read_parquet(results.report("r.parquet"))
    assert table.to_dicts() == frame
    assert {str(table.schema[name]) for name in ("value", "low", "high")} == {"Float64"}


def test_every_number_of_markdown_has_its_interval_and_n() -> None:
    names = [f"eyechart/{task}" for task in ("shape", "count", "word", "dialogue", "caption")]
    results = sn.evaluate(
        ["snellen:oracle", "snellen:uniform"], names, ["instability?m=2", "likelihood"], limit=6
    )
    text = read(results, "r.md")
    parts = dict(part.split("\n", 1) for part in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:])
    assert {
        "Result",
        "Accuracy by dimension",
        "Accuracy by benchmark",
        "CIDEr by benchmark",
        "Accuracy by part",
        "Requests",
        "Replies",
        "Runs",
        "Benchmarks",
    } <= set(parts)
    cells = [
        cell.strip()
        for title, part in parts.items()
        if title == "Result" or " by " in title
        for line in part.splitlines()[3:]
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    figures = [cell for cell in cells if "[" in cell]
    assert len(figures) > 60
    assert [cell for cell in figures if not re.fullmatch(FIGURE, cell.rstrip("¹²³⁴⁵ "))] == []
    # What has a decimal point and no interval is the chance level, which is not measured.
    assert {cell for cell in cells if "." in cell and "[" not in cell} <= {
        "25.0%",
        "29.2%",
        "31.2%",
        "33.3%",
        "37.5%",
    }


def test_every_number_of_the_page_has_its_interval_and_n(questions: Benchmark) -> None:
    results = sn.evaluate(
        "snellen:uniform", str(questions.folder), ["instability", "likelihood?m=2"]
    )
    page = read(results)
    values = re.findall(r"<td[^>]*><b>[^<]*</b>(.{30})", page)
    assert len(values) > 10
    assert [rest for rest in values if not rest.startswith(' <span class="ci">[')] == []
    marks = re.findall(r'<g class="s\d+"[^>]*><title>([^<]*)</title>', page)
    assert len(marks) > 10
    assert [mark for mark in marks if not re.search(FIGURE, html.unescape(mark))] == []


def test_page_parses_and_asks_nobody_for_anything(questions: Benchmark) -> None:
    page = read(sn.evaluate("snellen:uniform", str(questions.folder), ["circular", "likelihood"]))
    parsed = Page(page)
    assert re.findall(r"https?:|//[a-z]|url\(|@import", page.replace("data:image", "")) == []
    assert parsed.attributes("img", "src") == []
    assert parsed.attributes("script", "src") == []
    assert [tag for tag, _ in parsed.tags if tag in {"link", "iframe", "object", "base"}] == []
    assert [
        href for href in parsed.attributes("a", "href") if not (href or "").startswith("#")
    ] == []


def test_policy_allows_the_pages_own_script_and_style_and_nothing_else(
    questions: Benchmark,
) -> None:
    parsed = Page(read(sn.evaluate("snellen:uniform", str(questions.folder))))
    policy = next(attrs["content"] for tag, attrs in parsed.tags if attrs.get("http-equiv")) or ""
    _, script = parsed.scripts
    [style] = parsed.styles
    for content, kind in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert [
        attrs
        for _, attrs in parsed.tags
        if "style" in attrs or any(name.startswith("on") for name in attrs)
    ] == []


def nasty_rows() -> list[dict[str, Any]]:
    return [
        {
            **row,
            "question": f"{NASTY} {i}",
            "options": [f"{NASTY}{j}" for j in range(4)],
            "tag_level": NASTY,
        }
        for i, row in enumerate(small.rows(6))
    ]


def test_a_long_summary_begins_with_the_best_models(make: Callable[..., Benchmark]) -> None:
    benchmark = make([{**row, "answer": 0} for row in small.rows(11, pictures=11)])

    def model(number: int) -> sn.Scripted:
        return sn.Scripted(
            lambda request: "(A)" if int(request.sample_id[1:]) < number else "(B)",
            name=f"m{number:02d}",
        )

    page = read(sn.evaluate([model(number) for number in range(11)], str(benchmark.folder)))
    first = page[page.index("<caption>Result") :]
    names = re.findall(
        r'<th scope="row"[^>]*><a[^>]*>(m\d\d)</a>', first[: first.index("</table>")]
    )
    assert names == [f"m{number:02d}" for number in reversed(range(11))]


def test_hostile_text_stays_text(make: Callable[..., Benchmark]) -> None:
    folder = make(nasty_rows(), name="nasty").folder
    model = sn.Scripted(lambda request: NASTY, lambda request: [1.0, 2.0, 3.0, 4.0], name=NASTY)
    results = sn.evaluate(model, str(folder), ["vanilla", "circular", "likelihood"], name="run")
    page = read(results)
    parsed = Page(page)
    assert len(parsed.scripts) == 2
    assert "<img src=x" not in page
    assert "\x00" not in page
    assert "onerror" not in {name for _, attrs in parsed.tags for name in attrs}
    shown = NASTY.replace("\x00", "\ufffd")
    assert parsed.words.count(" ".join(f"{shown} 3".split())) >= 2
    markdown = read(results, "r.md")
    assert "<img" not in markdown.replace("\\<", "")
    for rows in re.findall(r"(?:^\|.*\n)+", markdown, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows.splitlines()}) == 1
    read(results, "r.csv")
    assert json.loads(read(results, "r.json"))[0]["model"] == NASTY


@given(st.text())
def test_a_browser_reads_back_what_was_escaped(text: str) -> None:
    found: list[str | None] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag == "p"
            found.append(dict(attrs)["title"])

    Reader(convert_charrefs=True).feed(f'<p title="{escaped(text)}">{escaped(text)}</p>')
    assert found == [html.unescape(escaped(text))]
    assert not set(escaped(text)) & {"<", ">", '"', "'", "\x00"}


@given(st.text())
def test_escaped_markdown_stays_in_its_cell(text: str) -> None:
    escaped = escape_markdown(text)
    assert "\n" not in escaped
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`]", escaped)


def test_wrong_ones_come_first_and_each_entry_tells_the_whole_story(four: str) -> None:
    results = sn.evaluate(sn.Scripted(mixed), four, "vanilla", error_budget=1.0)
    parsed = Page(read(results))
    outcomes = parsed.attributes("article", "data-outcome")
    assert outcomes == ["wrong", "unparsed", "error", "right"]
    words = parsed.words
    assert "Which animal is number 1?" in words
    assert "assistant, to be continued The answer is" in words
    assert "reply (B)" in words
    assert "read as (B) dog by label, in the requested format correct answer cat" in words
    assert "reply I'm sorry, I cannot tell. finish: stop" in words
    assert "read as nothing (" in words
    assert "error timeout after 3 attempts: no answer in 60 s" in words
    assert "4 of 4 entries, wrong ones first." in words and "Not on this page" not in words


def test_an_entry_of_several_presentations_shows_the_first_that_was_wrong(
    questions: Benchmark,
) -> None:
    results = sn.evaluate("snellen:always-a", str(questions.folder), "instability?m=4")
    [scored] = results.runs[0].benchmarks
    for entry in choose_gallery(prepare_reported_runs(results.runs, results.rows)).entries:
        answer = scored.answers[entry.sample.id, 0]
        wrong = [p for p in entry.predictions if p.choice not in answer.options]
        assert entry.outcome == "wrong"
        assert entry.shown_prediction is wrong[0]
        assert len(entry.predictions) == 4


def test_likelihoods_are_bars_and_nan_is_none(four: str) -> None:
    scores = {"q000": [-1.0, -2.0, -3.0, -4.0], "q001": [-9.0, -1.5, -3.0, -4.0]}
    model = sn.Scripted({}, lambda request: scores.get(request.sample_id, [-1.0] * 4))
    page = Page(read(sn.evaluate(model, four, "likelihood")))
    assert page.attributes("article", "data-outcome") == ["wrong", "unparsed", "unparsed", "right"]
    assert "-9.000" in page.words
    assert "nothing (all alike)" in page.words


def test_what_does_not_fit_is_counted(make: Callable[..., Benchmark]) -> None:
    folder = make(small.rows(40), name="forty").folder
    results = sn.evaluate("snellen:always-a", str(folder), "vanilla")
    reported_runs = prepare_reported_runs(results.runs, results.rows)
    parsed = Page(read(results))
    outcomes = parsed.attributes("article", "data-outcome")
    assert (outcomes.count("wrong"), outcomes.count("right")) == (12, 4)
    assert (
        "16 of 40 entries" in parsed.words
        and "Not on this page: 18 wrong, 6 right." in parsed.words
    )
    few = choose_gallery(reported_runs, GalleryLimits(entries=5))
    assert [entry.outcome for entry in few.entries] == ["wrong"] * 4 + ["right"]
    assert sum(few.left_out.values()) == 35


def test_protocols_take_turns_among_the_entries(make: Callable[..., Benchmark]) -> None:
    folder = make(small.rows(40), name="forty").folder
    results = sn.evaluate("snellen:always-a", str(folder), ["vanilla", "circular", "likelihood"])
    parsed = Page(read(results))
    wrong = [
        attrs["data-protocol"] for _, attrs in parsed.tags if attrs.get("data-outcome") == "wrong"
    ]
    assert sorted(wrong) == ["circular"] * 4 + ["likelihood"] * 4 + ["vanilla"] * 4


def test_pictures_are_the_stored_bytes_each_once(questions: Benchmark) -> None:
    results = sn.evaluate(["snellen:always-a", "snellen:uniform"], str(questions.folder), "vanilla")
    parsed = Page(read(results))
    pictures = json.loads(parsed.scripts[0])
    assert len(pictures) == len(set(pictures)) == 6
    assert all(uri.startswith("data:image/png;base64,") for uri in pictures)
    stored = {
        questions.images.read(image) for sample in questions.samples() for image in sample.images
    }
    assert {base64.b64decode(uri.partition(",")[2]) for uri in pictures} == stored
    assert {int(number or -1) for number in parsed.attributes("img", "data-image")} == set(range(6))
    assert all(parsed.attributes("img", "alt"))


def test_pictures_beyond_the_budget_and_lost_ones_are_named(make: Callable[..., Benchmark]) -> None:
    benchmark = make(small.rows(4, pictures=4))
    results = sn.evaluate("snellen:always-a", str(benchmark.folder))
    reported_runs = prepare_reported_runs(results.runs, results.rows)
    assert choose_gallery(reported_runs, GalleryLimits(image_bytes=0)).images == {}
    for sample in benchmark.samples():
        benchmark.images.path(sample.images[0].digest).unlink()
    assert Page(read(results)).words.count("missing from the benchmark's folder") == 4


def test_hidden_answers_still_make_a_report(make: Callable[..., Benchmark]) -> None:
    hidden = [
        {name: value for name, value in row.items() if name != "answer"} for row in small.rows(6)
    ]
    results = sn.evaluate("snellen:uniform", str(make(hidden).folder), ["instability", "circular"])
    [row] = summary_rows(results.runs, results.rows)
    assert row.accuracy == row.circular_accuracy == AbsentCell("the answers are hidden")
    assert isinstance(row.instability, NumberCell)
    assert row.unscored == 6
    parsed = Page(read(results))
    assert set(parsed.attributes("article", "data-outcome")) == {"answer not known"}
    assert "correct answer hidden" in parsed.words
    assert "hidden answer 6" in read(results, "r.md")


def test_a_hidden_benchmark_beside_an_open_one_says_so_in_its_own_cell(
    make: Callable[..., Benchmark],
) -> None:
    hidden = [
        {name: value for name, value in row.items() if name != "answer"} for row in small.rows(6)
    ]
    folders = [
        str(make(hidden, name="closed").folder),
        str(make(small.rows(6), name="open").folder),
    ]
    results = sn.evaluate("snellen:uniform", folders, "vanilla")
    part = read(results, "r.md").partition("### Accuracy by benchmark")[2].partition("###")[0]
    assert "| closed | 25.0% | —¹ |" in part
    assert "¹ the answers are hidden" in part
    [row] = summary_rows(results.runs, results.rows)
    # Nothing was unparsed, so nothing stands beside it.
    assert isinstance(row.accuracy, NumberCell)
    assert row.accuracy.secondary == ()


def test_what_is_true_of_all_runs_is_said_once(questions: Benchmark) -> None:
    text = read(sn.evaluate(["snellen:oracle", "snellen:uniform"], str(questions.folder)), "r.md")
    assert text.count("| version: snellen |") == 1
    assert "| all | replies parsed by | standard |" in text
    assert "| snellen:oracle | model: instrument | oracle |" in text
    alone = read(sn.evaluate("snellen:oracle", str(questions.folder)), "r.md")
    assert "| snellen:oracle | replies parsed by | standard |" in alone


def test_a_name_cannot_turn_the_direction_of_what_follows(four: str) -> None:
    results = sn.evaluate(sn.Scripted({}, name="right\u202eleft"), four, name="turned")
    assert "\u202e" not in read(results, "r.md")
    assert "<bdi>right\u202eleft</bdi>" in read(results)


def test_an_unfinished_run_makes_a_report_that_counts_what_was_never_asked(
    questions: Benchmark,
) -> None:
    sn.evaluate("snellen:oracle", str(questions.folder), "vanilla", name="half")
    journal = Path("runs/half/journal-0.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]) + b'{"torn')
    results = sn.score("runs/half")
    [row] = summary_rows(results.runs, results.rows)
    assert isinstance(row.accuracy, NumberCell)
    assert (row.accuracy.estimate.n, row.errors, row.not_asked) == (5, 0, 7)
    assert "not asked 7" in read(results, "r.md")
    parsed = Page(read(results))
    assert parsed.attributes("article", "data-outcome") == ["right"] * 4
    assert "Not on this page: 1 right." in parsed.words


def test_a_run_without_any_answer_makes_a_report(four: str) -> None:
    lost = sn.Scripted(lambda request: sn.Response(error=Failure("server", "HTTP 500")))
    results = sn.evaluate(lost, four, "vanilla", error_budget=1.0)
    [row] = summary_rows(results.runs, results.rows)
    assert row.accuracy == AbsentCell("no question was answered; see the errors")
    assert (row.unscored, row.errors) == (0, 4)
    assert "| server 4 |" in read(results, "r.md")
    assert Page(read(results)).attributes("article", "data-outcome") == ["error"] * 4


def test_circular_counts_rotations_avoided(questions: Benchmark) -> None:
    results = sn.evaluate(["snellen:oracle", "snellen:always-a"], str(questions.folder), "circular")
    text = read(results, "r.md")
    # 12 questions of 4 options: the oracle needs all 48, a stuck record gives itself away at the second.
    assert "| snellen:oracle | 48 | 0 | 48 | 0 |" in text
    assert "| snellen:always-a | 24 | 0 | 24 | 24 |" in text


def test_a_report_of_circular_runs_says_what_its_numbers_are_of(questions: Benchmark) -> None:
    results = sn.evaluate(["snellen:oracle", "snellen:always-a"], str(questions.folder), "circular")
    text = read(results, "r.md")
    pair = "snellen:oracle minus snellen:always-a"
    assert f"### Paired differences of circular accuracy under circular: {pair}\n" in text
    assert f"### Paired differences of accuracy under circular (first order only): {pair}\n" in text
    assert "| mine | 100.0% | 0.0% | 100.0 points [" in text
    assert (
        "Only the first presentation of each question: accuracy, hit rate and unparsed rate."
        in text
    )
    assert "By generation: from the protocol circular, each first presentation." in text
    assert "| snellen:oracle | circular | 48 | 48 | 0 |" in text, (
        "replies by stage are counts, without a second interval"
    )
    page = Page(read(results))
    assert "4 options, circular" in page.words and "A, position 1" in page.words
    values = [
        tag
        for tag, attrs in page.tags
        if tag == "text" and "value" in (attrs.get("class") or "").split()
    ]
    assert len(values) == 2 * (1 + 1 + 2 + 4 + 4), (
        "over all, by benchmark, by two tags, by places chosen and right"
    )


def test_runs_of_the_same_model_are_told_apart(questions: Benchmark) -> None:
    folder = str(questions.folder)
    runs = [
        sn.evaluate("snellen:uniform", folder, "vanilla", limit=k, name=f"first-{k}").runs[0]
        for k in (4, 8)
    ]
    results = sn.Results(runs)
    rows = summary_rows(results.runs, results.rows)
    assert [row.model for row in rows] == ["snellen:uniform (first-4)", "snellen:uniform (first-8)"]
    assert [row.accuracy.estimate.n for row in rows if isinstance(row.accuracy, NumberCell)] == [
        4,
        8,
    ]
    assert len({row["model"] for row in json.loads(read(results, "r.json"))}) == 2


def test_open_questions_have_tables_and_entries() -> None:
    results = sn.evaluate("snellen:uniform", ["eyechart/word", "eyechart/caption"], limit=5)
    parsed = Page(read(results))
    assert "Word accuracy by benchmark" in parsed.words
    assert "CIDEr by benchmark" in parsed.words
    assert {"scored"} <= set(parsed.attributes("article", "data-outcome")) <= set(OUTCOMES)


def test_dimensions_are_a_radar_from_five_on(make: Callable[..., Benchmark]) -> None:
    dimensions = ("CG", "FG", "STP", "CMI", "VMT")
    folders = [
        str(make(small.rows(4), name=f"d{i}", dimension=name).folder)
        for i, name in enumerate(dimensions)
    ]
    for count in (4, 5):
        page = read(sn.evaluate("snellen:oracle", folders[:count]))
        assert ('id="view-radar"' in page) == (count == 5)
        assert 'aria-label="Capability by dimension, generation"' in page


def test_a_capability_is_the_mean_of_first_metrics_and_accuracy_is_never_averaged_with_cider() -> (
    None
):
    names = ["eyechart/shape", "eyechart/word", "eyechart/caption", "eyechart/caption-choice"]
    results = sn.evaluate("snellen:uniform", names, limit=8)
    firsts = {
        "eyechart/shape": "accuracy",
        "eyechart/word": "exact_match",
        "eyechart/caption": "cider",
    }
    value = {
        row.dimension: row.estimate.value
        for row in results.rows
        if row.metric in ("capability", "headline")
    }
    one = {name: results.value(metric, benchmark=name) for name, metric in firsts.items()}
    assert value["STP"] == one["eyechart/word"] and value["Desc"] == one["eyechart/caption"]
    assert len(value) == 5 and value["*"] is None
    [overall] = [row for row in results.rows if (row.metric, row.dimension) == ("headline", "*")]
    assert overall.reason == "scales differ" and {"CIDEr", "accuracy"} <= set(
        overall.detail.split(", ")
    )
    page = Page(read(results))
    assert overall.reason in page.words
    assert "Capability by dimension" in page.words and "mean of the dimensions" in page.words
    # The suite has three benchmarks of coarse-grained perception, the run one.
    assert (
        "Cross-modal inference (CMI): accuracy of 1 benchmark; partial, without match."
        in page.words
    )


def test_the_same_runs_give_the_same_page(questions: Benchmark) -> None:
    results = sn.evaluate(
        "snellen:uniform", str(questions.folder), ["circular", "instability"], name="same"
    )
    assert read(results) == read(sn.score("runs/same"), "again.html")


def test_no_path_of_the_machine_is_in_a_report(questions: Benchmark, tmp_path: Path) -> None:
    results = sn.evaluate("snellen:uniform", str(questions.folder))
    for name in ("r.html", "r.md", "r.csv", "r.json"):
        text = read(results, name)
        assert str(questions.folder) not in text
        assert str(tmp_path) not in text


def test_a_metric_that_is_no_share_is_written_as_it_is() -> None:
    assert (
        figure_text(Estimate(0.625, 0.02, 0.58, 0.667, 1440), "share")
        == "62.5% [58.0, 66.7] n=1,440"
    )
    assert (
        figure_text(Estimate(0.6931, 0.02, 0.65, 0.73, 40), "nats") == "0.693 [0.650, 0.730] n=40"
    )
    assert figure_text(Estimate(3.2, 0.1, 3.0, 3.4, 40), "") == "3.200 [3.000, 3.400] n=40"
    assert figure_text(Estimate(-0.0, 0.0, None, None, 1), "nats") == "0.000 [no interval] n=1"


def test_a_chart_names_each_mark_and_keeps_within_its_frame() -> None:
    half = Estimate(0.5, 0.1, 0.3, 0.7, 10)
    groups = [
        IntervalRow(NASTY * 3, tuple(PlotPoint(i, f"model {i}", half) for i in range(30)), 0.25)
    ]
    drawn = standalone_svg(interval_chart("many", groups, ChartAxis("accuracy")))
    parsed = Page(drawn)
    assert drawn.count("model 29: 50.0% [30.0, 70.0] n=10") == 1
    assert len({attrs["class"] for tag, attrs in parsed.tags if tag == "g"}) == 8
    xs = [
        float(x or 0) for x in [*parsed.attributes("line", "x1"), *parsed.attributes("line", "x2")]
    ]
    assert 0 <= min(xs) <= max(xs) <= 460


def test_a_section_of_another_package_follows_the_section_it_names(
    four: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
        rows = tuple(
            (reported_run.label, reported_run.run.folder.name) for reported_run in reported_runs
        )
        return [Table("Folders of runs", ("model", "folder"), rows)]

    section = ReportSection("folders", "Folders", "where runs are", folder_tables, after="counts")
    monkeypatch.setitem(registry._NAMES["report_sections"], "folders", section)

    sn.evaluate("snellen:oracle", four, name="sectioned").report("r.md")
    text = Path("r.md").read_text("utf-8")

    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[headings.index("Counts") + 1] == "Folders"
    assert "| sectioned |" in text
