"""`snellen view`: pages over real HTTP on loopback, against what the runs' own files hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import small
import snellen as sn
from snellen.api import Results
from snellen.building.benchmark import Benchmark
from snellen.cli import main
from snellen.records import Failure, Request, Response, Score
from snellen.report.progress_text import ProgressReporter, progress_lines
from snellen.report.sample_cards import score_meanings
from snellen.runs.locks import locked_run
from snellen.runs.run_folder import read_manifest
from snellen.runs.run_progress import RunProgress

pytest.importorskip("starlette", reason="waits for starlette")
pytest.importorskip("uvicorn", reason="waits for uvicorn")

from snellen.viewing.filters import SORTS, QuestionFilter
from snellen.viewing.indexing import index_run
from snellen.viewing.library import RunLibrary, run_names
from snellen.viewing.pages import BenchmarkRow
from snellen.viewing.running import QUIET_SECONDS, Progress
from view_runs import HOSTILE, Replying, serving, until

QUESTIONS = 60
PROTOCOLS = ("instability?m=3", "likelihood")


def number_of(request: Request) -> int:
    return int(request.sample_id[1:])


def steady(request: Request) -> int:
    """Right but for every fifth question; every seventh reply cannot be read."""
    number = number_of(request)
    if request.kind == "generate" and number % 7 == 0:
        return -1
    return (number + (number % 5 == 0)) % 4


def wavering(request: Request) -> int:
    """Another option in each presentation of every third question."""
    number = number_of(request)
    return (number + (request.variant.test if number % 3 == 0 else 0)) % 4


def later(request: Request) -> int:
    """As `steady`, but for questions 5 and 6: the one is right now, the other no longer."""
    number = number_of(request)
    return {5: 5 % 4, 6: 1}.get(number, steady(request))


@dataclass
class Shown:
    runs: Path
    results: dict[str, Results]
    client: Any

    def page(self, address: str, **query: object) -> str:
        reply = self.client.get(address, params=query or None)
        assert reply.status_code == 200, (address, reply.status_code, reply.text)
        return str(reply.text)

    def listed(self, **query: object) -> list[str]:
        """The ids of the chosen questions, page by page."""
        ids: list[str] = []
        page = 1
        while True:
            text = self.page("/questions", **query, page=page)
            found = re.findall(r'<a href="(/question\?[^"]*)"', text)
            ids += [dict(parse_qsl(urlsplit(unescape(link)).query))["sample"] for link in found]
            if f"page={page + 1}" not in text:
                return ids
            page += 1


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("view")
    rows = small.rows(QUESTIONS, pictures=QUESTIONS)
    rows[3]["question"] = f"Which animal is it? {HOSTILE}"
    rows[4]["options"] = ["cat", HOSTILE, "horse", "cow"]
    rows[7]["tag_level"] = HOSTILE
    made: Benchmark = small.built(rows, folder / "made", name="animals")
    runs = folder / "runs"
    models = [
        ("first", "steady", steady),
        ("other", "wavering", wavering),
        ("second", "steady", later),
    ]
    results = {
        name: sn.evaluate(
            Replying(model, choose), str(made.folder), PROTOCOLS, runs=runs, name=name
        )
        for name, model, choose in models
    }
    for day, name in enumerate(results, 1):
        manifest = runs / name / "manifest.json"
        started = re.sub(
            r'"started": "[^"]*"',
            f'"started": "2026-01-0{day}T00:00:00+00:00"',
            manifest.read_text(),
        )
        manifest.write_text(started)
    with serving(runs, index=folder / "index.sqlite") as client:
        yield Shown(runs, results, client)


def accuracy(results: Results, protocol: str) -> dict[str, float | None]:
    """By sample, as the run's own file of scores has it."""
    [run] = results.runs
    lines = (run.folder / "scores.jsonl").read_text().splitlines()
    scores = [json.loads(line) for line in lines]
    return {
        s["sample_id"]: s["value"]
        for s in scores
        if s["metric"] == "accuracy" and s["protocol"] == protocol
    }


# --- what is chosen ----------------------------------------------------------------------------------------------


def test_all_questions_are_listed_once_in_their_order(shown: Shown) -> None:
    assert shown.listed() == [f"q{number:03d}" for number in range(QUESTIONS)]
    assert shown.listed(sort="sample") == shown.listed()


def test_wrong_unparsed_and_right_questions_are_those_of_the_scores(shown: Shown) -> None:
    chosen = {"run": "first", "protocol": "likelihood"}
    values = accuracy(shown.results["first"], "likelihood")
    assert shown.listed(**chosen, outcome="wrong") == [
        one for one, value in sorted(values.items()) if value == 0
    ]
    assert shown.listed(**chosen, outcome="right") == [
        one for one, value in sorted(values.items()) if value == 1
    ]
    unread = shown.listed(run="first", outcome="unparsed")
    assert unread == [f"q{number:03d}" for number in range(0, QUESTIONS, 7)]


def test_unstable_questions_are_those_with_several_choices(shown: Shown) -> None:
    expected = [f"q{number:03d}" for number in range(0, QUESTIONS, 3)]
    assert shown.listed(run="other", unstable=1) == expected == shown.listed(unstable=1)
    assert shown.listed(sort="unstable")[: len(expected)] == expected
    assert shown.listed(run="first", unstable=1) == []


def test_models_disagree_where_under_one_protocol_one_is_right_and_another_is_not(
    shown: Shown,
) -> None:
    expected = set()
    for protocol in PROTOCOLS:
        tables = [accuracy(results, protocol) for results in shown.results.values()]
        for sample in tables[0]:
            right = {table[sample] == 1 for table in tables}
            expected |= {sample} if len(right) == 2 else set()
    assert set(shown.listed(disagree=1)) == expected
    assert 0 < len(expected) < QUESTIONS


def test_tags_benchmarks_and_words_narrow_the_choice_together(shown: Shown) -> None:
    hard = [f"q{number:03d}" for number in range(1, QUESTIONS, 2) if number != 7]
    assert shown.listed(tag="level=hard") == hard
    assert shown.listed(tag="level=hard", benchmark="elsewhere") == []
    with_one = ["q001", "q011", "q013", "q015", "q017", "q019"]
    assert shown.listed(q='"animal is number 1"', tag="level=hard") == with_one
    assert shown.listed(q="NUMBER 59") == ["q059"]


def test_replies_are_searched_too_and_short_words_are_found(shown: Shown) -> None:
    assert shown.listed(q='"cannot tell"') == shown.listed(outcome="unparsed")
    assert shown.listed(q="59") == ["q059"]
    assert shown.listed(q="%") == [] == shown.listed(q="_")
    assert set(shown.listed(q=HOSTILE.split(" ", 1)[0])) >= {"q003"}


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30))
def test_no_search_is_a_fault(shown: Shown, text: str) -> None:
    shown.page("/questions", q=text.encode("utf-8", "replace").decode())


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


@given(
    st.builds(
        QuestionFilter,
        q=TEXT,
        benchmark=TEXT,
        tag=TEXT,
        run=TEXT,
        protocol=TEXT,
        better=TEXT,
        worse=TEXT,
        outcome=st.sampled_from(["", "wrong", "answer not known"]),
        unstable=st.booleans(),
        disagree=st.booleans(),
        sort=st.sampled_from(list(SORTS)),
        page=st.integers(1, 9999),
    )
)
def test_an_address_holds_the_whole_state(chosen: QuestionFilter) -> None:
    assert QuestionFilter.from_query(dict(parse_qsl(chosen.query))) == chosen


# --- one question ------------------------------------------------------------------------------------------------


def test_a_question_shows_all_that_was_sent_and_came(shown: Shown) -> None:
    page = shown.page("/question", of="animals", sample="q009")
    for name, results in shown.results.items():
        [run] = results.runs
        lines = [
            json.loads(line) for line in (run.folder / "journal-0.jsonl").read_text().splitlines()
        ]
        own = [line for line in lines if line["request"]["sample_id"] == "q009"]
        assert all(line.pop("crc") for line in own), (
            "the checksum is of the line, not of the exchange"
        )
        recorded = shown.client.get(
            "/exchanges.json", params={"run": name, "of": "animals", "sample": "q009"}
        ).json()
        assert recorded == own and len(own) == 4
        for line in own:
            words = [
                p["text"]
                for m in line["request"]["messages"]
                for p in m["content"]
                if p["type"] == "text"
            ]
            assert all(escape(text) in page for text in words)
    assert page.count('class="presentation"') == 3 * (3 + 1)
    assert page.count("<svg") == 3 * 4  # a bar for each option under likelihood
    assert page.count("log-likelihood (nats)") == 3


def test_previous_and_next_stay_among_the_chosen(shown: Shown) -> None:
    chosen = shown.listed(outcome="unparsed")
    page = shown.page("/question", of="animals", sample=chosen[1], outcome="unparsed")
    links = dict(re.findall(r'<a rel="(prev|next|up)" href="([^"]*)"', page))
    found = {rel: dict(parse_qsl(urlsplit(unescape(link)).query)) for rel, link in links.items()}
    assert found["prev"]["sample"] == chosen[0] and found["next"]["sample"] == chosen[2]
    assert found["up"] == {"outcome": "unparsed"} and found["next"]["outcome"] == "unparsed"
    assert f"2 of {len(chosen)}" in page


def test_a_picture_is_served_as_it_is_stored(shown: Shown) -> None:
    digest = re.findall(r"/images/([0-9a-f]{64})", shown.page("/questions"))[0]
    reply = shown.client.get(f"/images/{digest}")
    assert reply.content == small.picture(0) and reply.headers["content-type"] == "image/png"


# --- by protocol -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def circled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One model under two protocols: its first reply is right, and some later ones cannot be read or are wrong."""
    folder = tmp_path_factory.mktemp("circled")
    made: Benchmark = small.built(small.rows(8), folder / "made", name="animals")

    def first_alone(request: Request) -> int:
        number = number_of(request)
        if number == 2:
            return -1
        return (number + (request.variant.test == 1 and number < 4)) % 4

    results = sn.evaluate(
        Replying("first", first_alone),
        str(made.folder),
        ("vanilla", "circular"),
        runs=folder / "runs",
        name="run",
    )
    with serving(folder / "runs", index=folder / "index.sqlite") as client:
        yield Shown(folder / "runs", {"run": results}, client)


def test_a_count_in_the_table_is_that_of_its_link(circled: Shown) -> None:
    [(link, count)] = re.findall(
        r'data-label="unparsed"[^>]*><a href="([^"]*)">(\d+)</a>', circled.page("/")
    )
    assert count == "1" and " of 1 questions" in circled.page(unescape(link)), (
        "once, though under two protocols"
    )


def test_a_question_is_opened_by_the_protocol_of_its_list(circled: Shown) -> None:
    def protocols(**query: str) -> list[str]:
        page = circled.page("/question", of="animals", sample="q001", **query)
        return re.findall(r"<h2><bdi>([^<]*)</bdi></h2>", page)

    assert (
        protocols(protocol="vanilla")[0] == "vanilla"
        and protocols(protocol="circular")[0] == "circular"
    )


def test_a_rotation_that_was_not_asked_says_why(circled: Shown) -> None:
    page = circled.page("/question", of="animals", sample="q001")
    assert page.count("not asked: the replies contradict each other") == 2, (
        "of four rotations two were asked"
    )
    assert "not asked" not in circled.page("/question", of="animals", sample="q005")


def test_a_question_says_the_letter_of_its_right_answer_and_shares_as_shares(
    circled: Shown,
) -> None:
    page = circled.page("/question", of="animals", sample="q001", protocol="vanilla")
    gold = page[page.index("<dt>correct answer</dt>") :].split("</dd>")[0]
    letter = re.findall(r'<span class="none">\((\w) above\)</span>', gold)
    options = re.findall(
        r'<li dir="auto">([^<]*)</li>', page[: page.index("<dt>correct answer</dt>")]
    )
    assert letter == ["B"] and f"<bdi>{options[1]}</bdi>" in gold, (
        "question 1 is answered by its second option"
    )
    of_vanilla = page[page.index("<h2><bdi>vanilla</bdi></h2>") :].split("</summary>")[0]
    assert "accuracy 100%; " in of_vanilla and "not asked" not in of_vanilla


def test_a_question_says_what_each_of_its_numbers_is(circled: Shown) -> None:
    page = circled.page("/question", of="animals", sample="q001", protocol="vanilla")
    told = set(
        re.findall(
            r"[;>] ?([a-z ]+) (?:\d+%|—)",
            "".join(re.findall(r'<span class="facts">.*?</span>', page)),
        )
    )
    [meanings] = re.findall(r'<p class="notes">(.*?)</p>', page)
    assert (
        "hit rate" in told
        and "Hit rate: share of the replies that name one of the labels shown." in meanings
    )
    assert all(f"{name.capitalize()}: " in meanings for name in told)
    of_text = Score("vanilla", "generation", "words", "q001", 0, "word_accuracy", 1.0)
    assert score_meanings([of_text, of_text]).endswith("as whole words, in [0, 1].")


def test_a_list_shows_the_protocol_under_which_its_questions_were_chosen(circled: Shown) -> None:
    def columns(**query: str) -> list[str]:
        page = circled.page("/questions", **query)
        return re.findall(r'<br><span class="none">([^<]*)</span></th>', page)

    preferred = columns()
    wrong = columns(outcome="wrong")
    assert len(preferred) == 1 and wrong == ["circular"], "by vanilla none is wrong"
    assert columns(outcome="unparsed") == preferred, "under both; the preferred one is enough"
    assert "those used to filter these questions" in circled.page("/questions", outcome="wrong")


def test_another_protocol_is_sorted_as_this_one(circled: Shown) -> None:
    page = unescape(circled.page("/run", run="run", sort="worst"))
    for protocol in ("vanilla", "circular"):
        assert f"/run?run=run&protocol={protocol}&sort=worst#benchmarks" in page


def test_the_worst_benchmark_is_the_one_least_above_guessing(circled: Shown) -> None:
    row = next(row for row in circled.results["run"].rows if row.metric == "accuracy")

    def line(name: str, value: float | None, chance: float | None) -> BenchmarkRow:
        return BenchmarkRow(
            name, replace(row, estimate=replace(row.estimate, value=value)), {}, chance
        )

    lines = [
        line("none", None, None),
        line("four", 0.4, 0.25),
        line("two", 0.492, 0.5),
        line("open", 0.1, None),
    ]
    assert [each.benchmark for each in sorted(lines, key=BenchmarkRow.worst_first_key)] == [
        "two",
        "open",
        "four",
        "none",
    ]
    assert '<th scope="col" class="num">chance</th>' in circled.page(
        "/run", run="run", protocol="vanilla"
    )


def test_equal_replies_are_counted_in_the_list(circled: Shown) -> None:
    page = circled.page("/questions", protocol="circular", outcome="wrong")
    assert re.search(r'<span class="where" dir="auto">[^<]* \(2 times\)', page), (
        "two rotations, one letter"
    )


def test_numbers_of_the_first_presentation_alone_say_so(circled: Shown) -> None:
    page = circled.page("/run", run="run")
    table = page[page.index("<summary>All numbers") :]
    assert table[: table.index("</table>")].count("first order only") == 3, (
        "accuracy, hit rate, unparsed rate"
    )


# --- changes and runs --------------------------------------------------------------------------------------------


def test_what_changed_since_the_last_run_leads_to_the_questions(shown: Shown) -> None:
    comparing = escape("/compare?run=second&run=first")
    assert comparing in shown.page("/run", run="second") and "/compare?" not in shown.page(
        "/run", run="other"
    )
    page = shown.page("/compare", run=["second", "first"])
    assert shown.listed(better="second", worse="first", protocol="likelihood") == ["q005"]
    assert shown.listed(better="first", worse="second", protocol="likelihood") == ["q006"]
    assert shown.listed(better="first", worse="other", protocol="likelihood") != shown.listed(
        better="first", worse="other"
    )
    address = QuestionFilter(
        benchmark="animals", protocol="likelihood", better="second", worse="first"
    ).address
    assert f'<a href="{escape(address)}">1</a>' in page


def test_of_two_runs_one_alone_chooses_what_it_has_right_or_not(shown: Shown) -> None:
    for side, outcome in (("better", "right"), ("worse", "wrong")):
        listed = shown.listed(**{side: "first"}, protocol="likelihood")
        assert listed and listed == shown.listed(
            run="first", outcome=outcome, protocol="likelihood"
        )
    assert re.search(
        r"<h1>Questions that <bdi>[^<]*</bdi> answered correctly</h1>",
        shown.page("/questions", better="first"),
    )


def test_the_numbers_are_those_of_the_runs_results(shown: Shown) -> None:
    for name, results in shown.results.items():
        page = shown.page("/run", run=name)
        rows = [
            row
            for row in results.rows
            if row.metric == "accuracy" and row.benchmark == "animals" and not row.slice
        ]
        for row in rows:
            assert row.estimate.value is not None and row.estimate.low is not None
            assert f"<b>{100 * row.estimate.value:.1f}%</b>" in page
            assert f"[{100 * row.estimate.low:.1f}, " in page


def test_a_run_under_way_is_followed_until_it_is_finished(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark = make(small.rows(12), name="growing")
    gate = threading.Semaphore(5)
    asking = threading.Thread(
        target=sn.evaluate,
        args=(Replying("growing", steady, gate), str(benchmark.folder), "vanilla"),
        kwargs={"runs": tmp_path / "runs", "name": "live"},
    )
    asking.start()
    until(lambda: (tmp_path / "runs" / "live" / "journal-0.jsonl").exists())
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite") as client:
        until(lambda: "<b>4</b> of 12 questions begun" in client.get("/").text)
        page = client.get("/").text
        assert "under way" in page and 'data-live="1"' in page and "<progress" in page
        until(lambda: "so far" in client.get("/run?run=live").text)
        assert "of 4 questions" in client.get("/questions").text
        folder, much_later = tmp_path / "runs" / "live", time.time() + 2 * QUIET_SECONDS
        state = Progress(clock=lambda: much_later).of(folder, read_manifest(folder)).state
        assert state == "under way", "it waits long for an answer, and holds its folder"
        gate.release(100)
        asking.join(30)
        until(
            lambda: "finished" in client.get("/").text and 'data-live="0"' in client.get("/").text
        )
        until(lambda: "of 12 questions" in client.get("/questions").text)


def test_a_finished_run_is_finished_wherever_it_was_copied_and_one_cut_short_is_not(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark = make(small.rows(4))
    sn.evaluate("snellen:always-a", str(benchmark.folder), "vanilla", runs=tmp_path, name="run")
    folder, manifest = tmp_path / "run", read_manifest(tmp_path / "run")
    journal, later = folder / "journal-0.jsonl", (folder / "results.json").stat().st_mtime + 10
    os.utime(journal, (later, later))
    assert Progress(clock=lambda: later + 1).of(folder, manifest).state == "finished"
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines(keepends=True)[0])
    os.utime(journal, (later, later))
    assert Progress(clock=lambda: later + QUIET_SECONDS).of(folder, manifest).state == "stopped"


def test_a_run_cut_short_is_stopped_at_once_and_one_that_is_scored_is_under_way(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark, folder = make(small.rows(8)), tmp_path / "run"
    states: list[str] = []

    def judge(request: Request) -> str:
        much_later = time.time() + 10_000
        states.append(Progress(clock=lambda: much_later).of(folder, read_manifest(folder)).state)
        return "X"

    judging = sn.JudgeSpec(models=(sn.Scripted(judge),))
    unread = sn.Scripted(lambda request: "Maybe the cat, maybe the dog.", name="unread")
    sn.evaluate(unread, str(benchmark.folder), "vanilla", runs=tmp_path, name="run", judge=judging)
    assert set(states) == {"under way"}, "it is judged, long after its last answer"
    journal = folder / "journal-0.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    changed = journal.stat().st_mtime
    assert Progress(clock=lambda: changed + 3).of(folder, read_manifest(folder)).state == "stopped"


def test_an_attempt_without_a_single_reply_is_called_failed(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark = make(small.rows(4))

    def fails_always(request: Request) -> Response:
        return Response(error=Failure("connection", "nobody listens"))

    def fails_at_times(request: Request) -> Response:
        return Response(text="A") if request.sample_id == "q001" else fails_always(request)

    for name, reply in (("all", fails_always), ("later", fails_at_times)):
        model = sn.Scripted(reply, name=name)
        with suppress(sn.SnellenError):
            sn.evaluate(model, str(benchmark.folder), "vanilla", runs=tmp_path, name=name)
        for ending in ("results.json", "scoring.json", "scores.jsonl", "predictions.jsonl"):
            (tmp_path / name / ending).unlink(missing_ok=True)
        for path in (tmp_path / name).iterdir():
            os.utime(path, (0, 0))  # nothing was written for a long time
    with serving(tmp_path, index=tmp_path / "index.sqlite") as client:
        assert ">failed<" in client.get("/run?run=all").text
        assert "No request was answered, so nothing is scored." in client.get("/run?run=all").text
        assert ">stopped<" in client.get("/run?run=later").text
        table = client.get("/").text
        assert table.count(">failed<") == 1 and table.count(">stopped<") == 1


def test_a_run_that_is_not_finished_shows_no_number_that_early_stops_bend(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    """Questions that are failed are done after two orders, those that are right each time after four."""
    benchmark, folder = make(small.rows(8)), tmp_path / "runs" / "run"

    def every_other(request: Request) -> int:
        number = int(request.sample_id[1:])
        return (number + number % 2) % 4

    sn.evaluate(
        Replying("half", every_other),
        str(benchmark.folder),
        "circular",
        runs=folder.parent,
        name="run",
    )

    def page(index: str) -> str:
        with serving(folder.parent, index=tmp_path / index) as client:
            until(lambda: "over 8 questions" in client.get("/run?run=run").text)
            return client.get("/run?run=run").text

    assert "> accuracy under circular, over 8 questions" in page("finished.sqlite")
    journal = folder / "journal-0.jsonl"
    answers = journal.read_bytes().splitlines(keepends=True)
    begun = [line for line in answers if b'"test":2' not in line and b'"test":3' not in line]
    assert len(begun) < len(answers)
    journal.write_bytes(b"".join(begun))
    assert "> accuracy under circular, over 8 questions" in page("stopped.sqlite")


def test_replies_that_are_alike_are_kept_once_and_found_as_long_as_a_run_has_them(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark, runs = make(small.rows(8)), tmp_path / "runs"
    said = sn.Scripted(
        lambda request: "A zebra: (A)" if int(request.sample_id[1:]) % 2 else "(B)", name="said"
    )
    for name in ("first", "second"):
        sn.evaluate(said, str(benchmark.folder), "vanilla", runs=runs, name=name, report=False)
    library = RunLibrary([runs], tmp_path / "index.sqlite", may_be_empty=True)

    def kept_and_found() -> tuple[int, int, int]:
        library.refresh()
        counts = (
            library.rows(f"SELECT count(*) FROM {table}")[0][0]
            for table in ("reply_words", "reply_digest")
        )
        return *counts, len(library.selection(QuestionFilter(q="zebra"), library.runs()))

    assert kept_and_found() == (2, 2, 4)
    shutil.rmtree(runs / "first")
    assert kept_and_found() == (2, 2, 4)
    shutil.rmtree(runs / "second")
    sn.evaluate(
        "snellen:always-a", str(benchmark.folder), "vanilla", runs=runs, name="third", report=False
    )
    assert kept_and_found() == (1, 1, 0)


def test_a_benchmark_that_no_protocol_can_ask_is_not_counted_as_asked(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    texts = [
        {**{k: v for k, v in row.items() if k != "options"}, "answer": "cat"}
        for row in small.rows(4)
    ]
    folders = [
        str(make(small.rows(4)).folder),
        str(make(texts, name="words", formulation="text").folder),
    ]
    sn.evaluate(
        Replying("one", lambda request: 0), folders, "circular", runs=tmp_path / "runs", name="run"
    )
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite") as client:
        assert "1 of 2 benchmarks evaluated" in client.get("/run?run=run").text


def test_the_page_and_the_log_tell_the_time_left_by_this_sessions_answers_alone(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark, folder, now = make(small.rows(20)), tmp_path / "run", 0.0
    sn.evaluate("snellen:always-a", str(benchmark.folder), "vanilla", runs=tmp_path, name="run")
    journal, manifest = folder / "journal-0.jsonl", read_manifest(folder)
    lines = journal.read_bytes().splitlines(keepends=True)
    progress, words = Progress(clock=lambda: now), ProgressReporter(0, clock=lambda: now)

    def told(answers: int) -> tuple[float | None, str]:
        journal.write_bytes(b"".join(lines[:answers]))
        return progress.of(folder, manifest).seconds_left, words.due(
            RunProgress("m", str(folder), answers, len(lines), answers - 8)
        )

    with locked_run(folder):
        assert told(8) == (None, "8 of 20 questions done, 0 requests, 0 failed")
        now = 30.0  # the model was loaded all that time
        assert told(9) == (None, "9 of 20 questions done, 1 request, 0 failed")
        now = 34.0
        assert told(11) == (18.0, "11 of 20 questions done, 0.5/s, 18 s left, 3 requests, 0 failed")


def test_page_and_terminal_count_the_same_questions(tmp_path: Path) -> None:
    """Each turn of a dialogue is one."""
    states: list[RunProgress] = []
    sn.evaluate(
        "snellen:always-a",
        "eyechart/dialogue",
        limit=8,
        runs=tmp_path,
        name="talk",
        progress=states.append,
    )
    with locked_run(tmp_path / "talk"):
        on_page = Progress().of(tmp_path / "talk", read_manifest(tmp_path / "talk"))
    assert on_page.n_questions_reached == on_page.total == states[-1].done == states[-1].total > 8


def test_the_terminal_says_how_many_different_questions_several_protocols_ask(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    protocols = ("vanilla", "circular")
    listen = progress_lines(lines.append)
    sn.evaluate(
        "snellen:always-a",
        "eyechart/count",
        protocols,
        limit=6,
        runs=tmp_path,
        name="two",
        progress=listen,
    )
    assert "12 of 12 questions done (6 different ones, under several protocols)" in lines[-1]

    listen = progress_lines(lines.append)
    listen(RunProgress("m", "runs/five", 10, 10, requests=50))
    assert lines[-1] == "m: 10 of 10 questions done, 50 requests (5 for each question), 0 failed"


def test_the_log_of_a_run_that_goes_on_begins_with_all_that_was_answered_before() -> None:
    lines: list[str] = []
    listen = progress_lines(lines.append)
    for done in range(94):
        listen(RunProgress("m", "runs/again", done, 200))
    listen(RunProgress("m", "runs/again", 93, 200, requests=8))
    assert lines == ["m: 93 of 200 questions done, 8 requests, 0 failed"]


def test_a_finished_run_does_not_pass_what_was_answered_before_for_all(
    shown: Shown, tmp_path: Path
) -> None:
    shutil.copytree(shown.runs / "first", tmp_path / "runs" / "first")
    results, journal = tmp_path / "runs/first/results.json", tmp_path / "runs/first/journal-0.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:100]))
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite") as client:
        journal.write_bytes(whole)
        soon = time.time() + 5
        os.utime(results, (soon, soon))
        page = client.get("/run?run=first").text
        assert (
            ">finished<" not in page and "as of the last update" in page and 'data-live="1"' in page
        )
        until(lambda: ">finished<" in client.get("/run?run=first").text)
        assert f"over {QUESTIONS} questions" in client.get("/run?run=first").text


def test_a_run_that_cannot_be_scored_says_why_and_the_others_are_shown(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    for name in ("kept", "gone"):
        benchmark = make(small.rows(4), name=name)
        sn.evaluate(
            "snellen:always-a", str(benchmark.folder), "vanilla", runs=tmp_path / "runs", name=name
        )
    shutil.rmtree(benchmark.folder)
    (tmp_path / "runs/gone/scoring.json").unlink()
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite", refresh=False) as client:
        assert client.get("/").status_code == 200
        until(lambda: "This run cannot be shown" in client.get("/").text)
        until(lambda: "1 to 4 of 4 questions" in client.get("/questions").text)
        page = client.get("/").text
        assert "This run cannot be shown" in page and "answers.jsonl.gz cannot be read" in page


def test_a_run_whose_manifest_is_damaged_is_told_beside_the_others(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    sn.evaluate(
        "snellen:always-a",
        str(make(small.rows(4)).folder),
        "vanilla",
        runs=tmp_path / "runs",
        name="kept",
    )
    shutil.copytree(tmp_path / "runs/kept", tmp_path / "runs/torn")
    (tmp_path / "runs/torn/manifest.json").write_text("{")
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite") as client:
        page = client.get("/").text
    assert (
        "torn/manifest.json is damaged (Input data was truncated)" in page
        and 'href="/run?run=kept"' in page
    )


def test_a_run_whose_benchmark_is_gone_is_shown_as_it_was_scored(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    benchmark = make(small.rows(4), name="gone")
    sn.evaluate(
        "snellen:always-a", str(benchmark.folder), "vanilla", runs=tmp_path / "runs", name="run"
    )
    why = "The answers of the version that was run are not available; the benchmark may have been rebuilt."
    with serving(tmp_path / "runs", index=tmp_path / "before.sqlite", refresh=False) as client:
        until(lambda: "1 to 4 of 4 questions" in client.get("/questions").text)
        assert why not in client.get("/run?run=run").text
    shutil.rmtree(benchmark.folder)
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite", refresh=False) as client:
        until(lambda: "1 to 4 of 4 questions" in client.get("/questions").text)
        assert "This run cannot be shown" not in client.get("/").text
        assert why in client.get("/run?run=run").text


def test_an_index_is_made_once_and_only_for_runs_that_changed(shown: Shown, tmp_path: Path) -> None:
    library = RunLibrary([shown.runs], tmp_path / "index.sqlite")
    library.refresh()
    first = {run.name: run.indexed for run in library.runs()}
    again = RunLibrary([shown.runs], tmp_path / "index.sqlite")
    again.refresh()
    assert {run.name: run.indexed for run in again.runs()} == first and len(first) == 3


def test_a_file_that_is_no_index_is_made_again(shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").write_bytes(b"not a database" * 100)
    library = RunLibrary([shown.runs / "first"], tmp_path / "index.sqlite")
    library.refresh()
    assert library.rows("SELECT count(*) FROM question") == [(QUESTIONS,)]


def test_what_two_sessions_see_is_the_same_though_one_of_them_indexed(
    shown: Shown, tmp_path: Path
) -> None:
    runs, index = shutil.copytree(shown.runs, tmp_path / "runs"), tmp_path / "index.sqlite"
    first, second = RunLibrary([runs], index), RunLibrary([runs], index)
    assert len(first.selection(QuestionFilter(), first.runs())) == 0
    second.refresh()
    assert len(first.selection(QuestionFilter(), first.runs())) == QUESTIONS


def test_runs_are_named_by_as_much_of_their_path_as_it_takes() -> None:
    folders = [Path("/a/one/run"), Path("/a/two/run"), Path("/a/two/else")]
    assert run_names(folders) == ["one/run", "two/run", "else"]


# --- nothing from outside ----------------------------------------------------------------------------------------

ADDRESSES = [
    "/",
    "/?sort=model",
    "/run?run=first",
    "/compare?run=first&run=other",
    "/start",
    "/questions",
    "/question?of=animals&sample=q003",
    "/nowhere",
    "/question?of=animals&sample=no",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_has_a_strict_policy_and_asks_for_nothing_elsewhere(
    shown: Shown, address: str
) -> None:
    reply = shown.client.get(address)
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert not re.findall(r'(?:src|href|action)="(?!/|#)', reply.text)
    assert not re.search(
        r"<script(?! src=\"/assets/)|<style|<[^>]*\s(?:style|on\w+)=",
        reply.text.replace(escape(HOSTILE), ""),
    )


@pytest.mark.parametrize(
    "query",
    [
        {"of": "animals", "sample": "q003"},
        {"of": "animals", "sample": "q004"},
        {"of": "animals", "sample": "q007"},
        {"q": HOSTILE},
        {"tag": HOSTILE},
        {"benchmark": HOSTILE},
        {"run": HOSTILE},
        {"protocol": HOSTILE},
        {"better": HOSTILE, "worse": HOSTILE},
    ],
)
def test_texts_from_outside_are_shown_as_they_stand(shown: Shown, query: dict[str, str]) -> None:
    page = shown.page("/question" if "of" in query else "/questions", **query)
    assert "<script>" not in page and '<img src="x"' not in page
    assert "&lt;script&gt;" in page


def test_a_page_elsewhere_that_is_made_to_lead_here_is_turned_away(shown: Shown) -> None:
    assert shown.client.get("/", headers={"host": "evil.example"}).status_code == 400
    assert shown.client.get("/", headers={"host": "localhost:7878"}).status_code == 200
    assert shown.client.post("/questions").status_code == 405


def test_every_page_says_that_runs_are_being_indexed(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_index = threading.Event()
    monkeypatch.setattr(
        "snellen.viewing.library.index_run", lambda *given: may_index.wait(30) and index_run(*given)
    )
    question = "/question?of=animals&sample=q001"
    with serving(shown.runs / "first", index=tmp_path / "index.sqlite", refresh=False) as client:
        assert "No question matches among the indexed ones." in client.get("/questions").text
        for path in ("/questions", "/questions?q=cat", question, "/"):
            assert "ndexing …" in client.get(path).text
        may_index.set()
        until(lambda: "of 60 questions" in client.get("/questions").text)
        for path in ("/questions", question, "/"):
            assert "ndexing …" not in client.get(path).text


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2fschema.sql",
        "/assets/../schema.sql",
        "/assets/%2e%2e/schema.sql",
        "/assets/view.py",
        "/images/..%2f..%2f..%2fetc%2fpasswd",
        "/images/" + "0" * 64,
        "/images/" + "0" * 63 + "/",
        "/exchanges.json?run=../first&of=animals&sample=q001",
        "/question?of=animals&sample=q001&turn=-1",
        "/question?of=animals&sample=q001&turn=99999999999999999999",
    ],
)
def test_no_address_leads_out_of_the_runs(shown: Shown, path: str) -> None:
    assert shown.client.get(path).status_code == 404


def test_a_folder_without_runs_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["view", str(tmp_path)])
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "no runs found (manifest.json is missing)" in error


def test_without_runs_the_pages_offer_to_start_one(tmp_path: Path) -> None:
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite", may_change=True) as client:
        page = client.get("/").text
    assert "No runs yet." in page and page.count('href="/start"') == 2


def test_the_command_serves_until_it_is_interrupted(shown: Shown) -> None:
    words = [sys.executable, "-m", "snellen", "view", str(shown.runs / "first"), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        import httpx

        until(
            lambda: (
                "60 questions indexed" in httpx.get(address, timeout=30, follow_redirects=True).text
            )
        )
    finally:
        process.send_signal(2)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
