"""What `snellen view` lets its owner do: compare, keep names, notes and labels, start, stop and resume runs."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterator
from html import escape, unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.records import Failure, Request
from snellen.report.flipped import FLIPS_NOTE, flip_tables
from snellen.scoring.reply_labels import read_labels

pytest.importorskip("starlette", reason="waits for starlette")
pytest.importorskip("uvicorn", reason="waits for uvicorn")

from snellen.viewing.comparing import SHARED_QUESTIONS_NOTE
from snellen.viewing.run_notes import RUN_NOTES, read_run_notes
from view_runs import Replying, serving, until

QUESTIONS = 24


def half(request: Request) -> int:
    """Every second question right; every sixth reply cannot be read."""
    number = int(request.sample_id[1:])
    return -1 if number % 6 == 5 else (number + number % 2) % 4


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    rows = small.rows(QUESTIONS, pictures=QUESTIONS)
    for number, row in enumerate(rows):
        row["tag_level"] = "hard" if number % 2 else "easy"
    made: Benchmark = small.built(rows, tmp_path / "made", name="animals")
    models: list[tuple[str, Any]] = [
        ("half", Replying("half", half)),
        ("letter", "snellen:always-a"),
        ("perfect", "snellen:oracle"),
    ]
    for name, model in models:
        sn.evaluate(model, str(made.folder), "vanilla", runs=tmp_path / "runs", name=name)
    return tmp_path / "runs"


@pytest.fixture
def client(runs: Path, tmp_path: Path, own_home: Path) -> Iterator[httpx.Client]:
    with serving(runs, index=tmp_path / "index.sqlite", may_change=True) as client:
        yield client


def send(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(
        path, data={"token": client.headers["token"], **fields}, follow_redirects=True
    )


def names_in(page: str) -> list[str]:
    return re.findall(r'name="run" value="([^"]*)"', page)


# --- the table of runs -------------------------------------------------------------------------------------------


def test_the_table_is_sorted_by_its_heads_and_back(client: httpx.Client) -> None:
    best_first = client.get("/?sort=-headline").text
    assert names_in(best_first) == ["perfect", "half", "letter"]
    assert 'aria-sort="descending"' in best_first and 'href="/?sort=headline"' in best_first
    assert names_in(client.get("/?sort=headline").text) == ["letter", "half", "perfect"]
    assert names_in(client.get("/?sort=name").text) == ["half", "letter", "perfect"]
    assert names_in(client.get("/?sort=nothing").text) == names_in(client.get("/").text)


def test_runs_are_found_by_words_of_their_model_name_and_tags(client: httpx.Client) -> None:
    assert names_in(client.get("/?q=ALWAYS+animals").text) == ["letter"]
    assert "No run matches" in client.get("/?q=always+oracle").text


def test_names_tags_and_archive_are_kept_beside_the_runs(client: httpx.Client, runs: Path) -> None:
    page = send(
        client, "/run-note", run="half", alias="The one half", tags="baseline, <b>new</b> baseline"
    ).text
    assert "<h1><bdi>The one half</bdi></h1>" in page and "<b>new" not in page
    send(client, "/run-note", run="letter", archived="1")
    assert (
        names_in(client.get("/?tag=baseline").text) == ["half"]
        and "The one half" in client.get("/").text
    )
    assert "letter" not in names_in(client.get("/").text)
    assert "letter" in names_in(client.get("/?archived=1").text)
    lines = (runs / RUN_NOTES).read_text().splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["half", "letter"]
    send(client, "/run-note", run="letter")
    assert "letter" in names_in(client.get("/").text)
    assert len((runs / RUN_NOTES).read_text().splitlines()) == 3, "the file only grows"
    note = read_run_notes([runs])[runs / "half"]
    assert note.tags == ("baseline", "<b>new</b>")


def test_a_note_that_cannot_be_read_is_named(client: httpx.Client, runs: Path) -> None:
    (runs / RUN_NOTES).write_text('{"run":"half"}\nnot json\n')
    answer = client.get("/")
    assert answer.status_code == 500 and f"{RUN_NOTES}:2: not a note" in answer.text


# --- a run and a comparison --------------------------------------------------------------------------------------


def test_a_runs_page_leads_to_its_failures(client: httpx.Client) -> None:
    page = client.get("/run?run=half").text
    links = re.findall(
        r'<bdi>([^<]*)</bdi> · <a href="([^"]*)">(\d+)(?: of (\d+))? questions?</a>', page
    )
    by_words = {words: (unescape(link), int(count), total) for words, link, count, total in links}
    assert by_words["level=hard"][1:] == (8, "12")
    for link, count, _ in by_words.values():
        assert f" of {count} questions" in client.get(link).text, link
    assert by_words["refused"][1] == 4, "why questions were unparsed"


def test_letters_are_those_of_the_replies(client: httpx.Client) -> None:
    page = client.get("/run?run=letter").text
    letters = page[page.index('id="letters"') :]
    assert re.findall(r'<th scope="row">(\w)</th>', letters[: letters.index("</table>")])[0] == "A"
    assert (
        "100.0%" in letters
        and f'<td class="num">{QUESTIONS}</td>' in letters
        and "+75.0" in letters
    )


def test_a_comparison_says_what_snellen_compare_says(client: httpx.Client, runs: Path) -> None:
    scored = [run for name in ("perfect", "half") for run in sn.score(runs / name).runs]
    comparison = sn.Results(scored).compare(resamples=0)
    [difference] = [one for one in comparison.differences if one.benchmark == "animals"]
    page = client.get("/compare?run=perfect&run=half").text
    assert difference.difference.low is not None and difference.difference.high is not None
    ends = f"{100 * difference.difference.low:.1f} to {100 * difference.difference.high:.1f} points"
    assert re.search(f"<li>[^<]* is better than [^<]* by {ends}", page)
    link, count = re.findall(r'href="(/questions\?[^"]*)">(\d+)</a>', page)[0]
    assert int(count) == difference.only_first
    [table] = flip_tables(scored, [("snellen:oracle", "half")])
    cells = re.findall(r'<td class="num">(.*?)</td>', page[page.index('id="flips"') :])
    assert [re.sub("<[^>]*>", "", cell) for cell in cells[:3]] == [
        str(cell) for cell in table.rows[0][1:]
    ]
    assert FLIPS_NOTE in page
    found = client.get(unescape(link)).text
    assert f" of {count} questions" in found
    assert (
        found.count("<bdi>perfect</bdi>") + found.count("snellen:oracle")
        and "always-a</bdi><br>" not in found
    )


def test_a_comparison_is_over_benchmarks_that_all_have_and_says_which_are_left_out(
    client: httpx.Client, runs: Path, tmp_path: Path
) -> None:
    animals = str(tmp_path / "made")
    sn.evaluate("snellen:oracle", animals, "vanilla", runs=runs, name="few", limit=6)
    other = small.built(small.rows(6, pictures=6), tmp_path / "other", name="plants")
    sn.evaluate("snellen:oracle", [animals, str(other.folder)], "vanilla", runs=runs, name="both")
    until(lambda: "both" in names_in(client.get("/").text))
    page = client.get("/compare?run=both&run=half").text
    charts = "".join(re.findall("<svg.*?</svg>", page, re.DOTALL))
    assert "animals" in charts and "plants" not in charts
    assert "1 benchmark left out: only one of these runs has it" in page
    assert escape("/questions?benchmark=plants&run=both") in page
    assert f"paired on {QUESTIONS} questions" in page, "the sentence, too, is over what both have"
    sn.evaluate(
        "snellen:always-a", [animals, str(other.folder)], "vanilla", runs=runs, name="letters"
    )
    until(lambda: "letters" in names_in(client.get("/").text))
    of_three = client.get("/compare?run=both&run=letters&run=half").text
    assert re.search("<th[^>]*>plants<", of_three[of_three.index('id="flips"') :]), (
        "of the two that have it"
    )
    assert (
        "1 benchmark left out of the charts: not all of these runs have it; differences count what"
        in of_three
    )
    alike, unlike = (
        client.get(f"/compare?run=perfect&run={name}").text for name in ("half", "few")
    )
    assert "left out" not in alike and alike.count("<figure") == 1, (
        "its one dimension has one benchmark"
    )
    assert SHARED_QUESTIONS_NOTE in unlike and SHARED_QUESTIONS_NOTE not in alike


def test_the_charts_of_a_comparison_are_over_the_questions_of_its_table(tmp_path: Path) -> None:
    """One run was asked half of the questions, and some requests of the other failed."""
    benchmark, runs = (
        small.built(small.rows(24, pictures=24), tmp_path / "made", name="animals"),
        tmp_path / "runs",
    )

    def reply(request: Request) -> str | sn.Response:
        number = int(request.sample_id[1:])
        if number % 5 == 1:
            return sn.Response(error=Failure("timeout", "late"))
        return request.variant.labels[request.variant.order.index(number % 4 if number % 3 else 0)]

    folder = str(benchmark.folder)
    sn.evaluate(
        sn.Scripted(reply, name="some"), folder, "vanilla", runs=runs, name="some", error_budget=1.0
    )
    sn.evaluate("snellen:always-a", folder, "vanilla", runs=runs, name="half", limit=12)
    results = sn.load_run([runs / "some", runs / "half"])
    [difference] = [
        each for each in results.compare(resamples=0).differences if each.benchmark == "animals"
    ]
    own = results.value("accuracy", model="some")
    assert difference.difference.n < 12 and difference.first_value != own
    with serving(runs, index=tmp_path / "index.sqlite") as client:
        page = client.get("/compare?run=some&run=half").text
    [chart] = re.findall("<figure.*?</figure>", page, re.DOTALL)
    shown = set(re.findall(r"\d+\.\d%", chart))
    assert {
        f"{100 * value:.1f}%" for value in (difference.first_value, difference.second_value)
    } <= shown
    assert f"{100 * own:.1f}%" not in shown and SHARED_QUESTIONS_NOTE in chart


def test_a_question_shows_the_compared_runs_first_in_the_order_of_the_list(
    client: httpx.Client,
) -> None:
    address = "/question?of=animals&sample=q001"
    for better, worse in (("perfect", "letter"), ("letter", "perfect")):
        page = client.get(f"{address}&better={better}&worse={worse}").text
        assert re.findall(r'<th scope="row"><a href="/run\?run=(\w+)"', page) == [
            better,
            worse,
            "half",
        ]


def test_one_run_is_not_compared_and_a_strange_one_is_not_there(client: httpx.Client) -> None:
    assert client.get("/compare?run=half").status_code == 400
    assert client.get("/compare?run=half&run=../half").status_code == 404


def test_the_report_is_served_with_its_own_policy_and_may_be_framed_here_alone(
    client: httpx.Client,
) -> None:
    answer = client.get("/report?run=half")
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy and "allow-same-origin" not in policy
    assert "Snellen report" in answer.text and "Content-Security-Policy" in answer.text
    assert 'src="/report?run=half"' in client.get("/run?run=half").text
    assert 'href="/report?run=half&amp;save=1">Save as one file' in answer.text
    saved = client.get("/report?run=half&save=1")
    assert saved.headers["content-disposition"] == 'attachment; filename="report-of-half.html"'
    assert "Save as one file" not in saved.text
    assert client.get("/report?run=half", headers={"sec-fetch-dest": "iframe"}).text == saved.text


def test_failures_are_put_together_by_how_their_pictures_look(tmp_path: Path) -> None:
    """A model that is wrong about dark images and right about the rest, but for one."""
    rows = small.rows(48, pictures=48)
    for number, row in enumerate(rows):
        shade = (20, 130, 240)[number % 3] + number % 7
        out = io.BytesIO()
        Image.new("RGB", (12, 9), (shade, 255 - shade, shade if number % 3 else 90)).save(
            out, "PNG"
        )
        row["image"] = base64.b64encode(out.getvalue()).decode()
    made = small.built(rows, tmp_path / "made", name="animals")

    def sees(request: Request) -> int:
        number = int(request.sample_id[1:])
        return (number + (number % 3 == 0 or number == 7)) % 4

    sn.evaluate(
        Replying("day", sees), str(made.folder), "vanilla", runs=tmp_path / "runs", name="day"
    )
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite") as client:
        assert 'href="/alike?run=day&amp;protocol=vanilla"' in client.get("/run?run=day").text
        page = client.get("/alike?run=day&protocol=vanilla").text
        assert sum(int(right) for right in re.findall(r"<h2>(\d+) of \d+ wrong</h2>", page)) == 16
        assert len(re.findall(r'class="wrong"><img', page)) == 16 and "sample=q007" not in page
        assert (
            client.get(
                re.findall(r'<a href="([^"]+)" class="wrong">', unescape(page))[0]
            ).status_code
            == 200
        )
        assert "No group of similar images" in client.get("/alike?run=day&protocol=circular").text


# --- notes and labels --------------------------------------------------------------------------------------------

PLACE = {"of": "animals", "sample": "q005", "turn": "0", "build": ""}


def test_a_label_is_one_of_snellen_agree(client: httpx.Client, runs: Path) -> None:
    page = client.get("/question", params=PLACE).text
    forms = re.findall(r'<form class="label-reply".*?</form>', page, re.S)
    [form] = [form for form in forms if 'name="run" value="half"' in form]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form))
    page = send(client, "/label", **{**fields, "label": "B"}).text
    assert 'value="B" aria-pressed="true"' in page
    [label] = read_labels(runs / "half" / "labels.jsonl").values()
    assert (label.item, label.label) == (fields["item"], "B")
    send(client, "/label", **{**fields, "label": ""})
    assert read_labels(runs / "half" / "labels.jsonl") == {}


def test_after_a_label_or_a_note_the_reader_stands_where_it_was_given(client: httpx.Client) -> None:
    listed = unescape(client.get("/questions?run=half&outcome=unparsed&q=animal").text)
    address = re.findall(r'<th scope="row"><a href="(/question\?[^"]*)"', listed)[1]
    page = client.get(address).text
    assert "2 of 4" in page
    for path, button in (("/label", {"label": "B"}), ("/note", {"text": "blurred"})):
        forms = re.findall(rf'<form [^>]*action="{path}">.*?</form>', page, re.S)
        fields = dict(re.findall(r'name="([^"]*)" value="([^"]*)">', unescape(forms[0])))
        kept = send(client, path, **{**fields, **button})
        part = kept.url.fragment
        assert part == (f"reply-{fields['item']}" if path == "/label" else "notes")
        assert "2 of 4" in kept.text and f'id="{part}"' in kept.text


def test_a_note_keeps_its_lines(client: httpx.Client, runs: Path) -> None:
    page = send(client, "/note", run="half", text="one\r\ntwo", **PLACE).text
    assert ">one\ntwo</textarea>" in page
    assert json.loads((runs / "half" / "notes.jsonl").read_text())["text"] == "one\ntwo"


def test_a_note_on_a_sample_is_kept_in_the_run(client: httpx.Client, runs: Path) -> None:
    page = send(client, "/note", run="half", text="The picture is <b>blurred</b>.", **PLACE).text
    assert "The picture is &lt;b&gt;blurred&lt;/b&gt;." in page
    [line] = (runs / "half" / "notes.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "benchmark": "animals",
        "sample_id": "q005",
        "text": "The picture is <b>blurred</b>.",
    }


# --- runs that are started ---------------------------------------------------------------------------------------


def test_a_run_is_started_stopped_and_resumed_from_the_page(
    client: httpx.Client, runs: Path, make: Callable[..., Benchmark]
) -> None:
    benchmark = make(small.rows(6), name="new")
    fields = {
        "model": "snellen:always-a",
        "benchmarks": str(benchmark.folder),
        "protocols": "vanilla",
        "limit": "4",
    }
    page = send(client, "/start", **fields, name="fresh")
    process = str(page.url)
    assert "<h1><bdi>fresh</bdi></h1>" in page.text
    until(lambda: "finished" in client.get(process).text, 120)
    assert (runs / "fresh" / "results.json").exists()
    until(lambda: "fresh" in names_in(client.get("/").text))
    journal = runs / "fresh" / "journal-0.jsonl"
    (runs / "fresh" / "results.json").unlink()
    scored = send(client, "/resume", run="fresh")
    assert f"snellen score {runs / 'fresh'}" in unescape(scored.text), (
        "nothing is missing: no model is loaded"
    )
    until(lambda: "finished" in client.get(str(scored.url)).text, 120)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    resumed = send(client, "/resume", run="fresh")
    until(lambda: "finished" in client.get(str(resumed.url)).text, 120)
    assert len(journal.read_bytes().splitlines()) == 4
    assert send(client, "/stop", id=str(resumed.url.params["id"])).status_code == 200, (
        "it has ended already"
    )


def test_a_run_is_stopped_once_its_process_has_ended_and_under_way_once_it_is_resumed(
    client: httpx.Client, runs: Path, make: Callable[..., Benchmark]
) -> None:
    benchmark = make(small.rows(6), name="slow")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes requests and never answers
        model = f"openai:silent@http://127.0.0.1:{silent.getsockname()[1]}/v1"
        page = send(
            client,
            "/start",
            model=model,
            benchmarks=str(benchmark.folder),
            protocols="vanilla",
            name="slow",
        )
        process = str(page.url)
        until(
            lambda: (
                (runs / "slow" / "manifest.json").exists() or "ended" in client.get(process).text
            ),
            120,
        )
        page_of_run = client.get("/run?run=slow").text
        assert ">Stop</button>" in page_of_run and f"loading {model}" in page_of_run
        stop_at_once(client, page.url)
        page_of_process, page_of_run = client.get(process).text, client.get("/run?run=slow").text
        assert ">Resume</button>" in page_of_process
        assert (
            ">stopped<" in page_of_run
            and ">Resume</button>" in page_of_run
            and ">Stop</button>" not in page_of_run
        )
        for path in (runs / "slow").iterdir():
            os.utime(path, (0, 0))  # what is resumed much later
        resumed = send(client, "/resume", run="slow")
        page_of_run = client.get("/run?run=slow").text
        assert ">under way<" in page_of_run and ">Stop</button>" in page_of_run
        assert 'data-live="1"' in page_of_run and ">Resume</button>" not in client.get(process).text
        stop_at_once(client, resumed.url)


def stop_at_once(client: httpx.Client, process: httpx.URL) -> None:
    """Stop a process until it has ended: only the first interruption waits for replies, at most 30 s."""

    def has_ended() -> bool:
        send(client, "/stop", id=str(process.params["id"]))
        return ">stopped by you<" in client.get(str(process)).text

    until(has_ended, 60)


def test_a_start_that_is_refused_keeps_what_was_typed_and_names_all_faults(
    client: httpx.Client, runs: Path
) -> None:
    before = sorted(runs.iterdir())
    typed = {
        "model": "snellen:tinny",
        "benchmarks": "eyechart/colour pop",
        "protocols": "circlar",
        "limit": "many",
    }
    page = send(client, "/start", **typed, name="mine").text
    faults = re.findall("<li>([^<]*)</li>", page[page.index('role="alert"') :])
    assert [fault.split(";")[0] for fault in map(unescape, faults)] == [
        "unknown embedded model 'tinny'",
        "unknown benchmark 'pop'",
        "unknown protocol 'circlar'",
        "samples per benchmark: 'many' is not a positive whole number",
    ]
    assert "'0' is not a positive whole number" in unescape(
        send(client, "/start", **{**typed, "limit": "0"}).text
    )
    for text in ("snellen:tinny", "pop", "circlar", "many", "mine"):
        assert f'value="{text}"' in page
    assert "<option selected>eyechart/colour</option>" in page
    assert "name a model" in send(client, "/start", model="", benchmarks="eyechart/colour").text
    assert "name a benchmark" in send(client, "/start", model="snellen:tiny", benchmarks="").text
    assert (
        "name: "
        in send(
            client, "/start", model="snellen:tiny", benchmarks="eyechart/colour", name="../x"
        ).text
    )
    assert sorted(runs.iterdir()) == before


def test_the_form_says_what_it_will_run_and_runs_it_only_when_told(
    client: httpx.Client, runs: Path
) -> None:
    before = sorted(runs.iterdir())
    page = send(
        client,
        "/start",
        model="snellen:tiny",
        benchmarks="eyechart/colour",
        protocols="circular",
        limit="4",
        look="1",
    ).text
    exam = unescape(page[page.index("<pre") :]).partition(">")[2].partition("</pre>")[0]
    assert tomllib.loads(exam) == {
        "models": ["snellen:tiny"],
        "benchmarks": ["eyechart/colour"],
        "protocols": ["circular"],
        "limit": 4,
        "runs": str(runs),
    }
    assert "snellen:tiny: 4 to 16 requests to send" in page
    assert sorted(runs.iterdir()) == before and "Started here" not in page


def test_a_start_under_the_name_of_a_run_says_first_that_the_run_grows(
    client: httpx.Client, runs: Path
) -> None:
    journal = (runs / "half" / "journal-0.jsonl").read_bytes()
    page = send(
        client, "/start", model="snellen:tiny", benchmarks="eyechart/colour", limit="1", name="half"
    ).text
    assert "already exists. Starting resumes it" in page and ">Add to this run</button>" in page
    assert 'name="grows" value="half"' in page and "Started here" not in page
    assert (runs / "half" / "journal-0.jsonl").read_bytes() == journal


def test_the_requests_of_benchmarks_that_are_not_here_are_not_counted_and_nothing_is_fetched(
    client: httpx.Client,
) -> None:
    page = send(
        client, "/start", model="snellen:tiny", benchmarks="lvlm-ehub/pope-random", look="1"
    ).text
    assert "counted once these are fetched, which the run does first: lvlm-ehub/pope-random" in page


def test_the_form_suggests_what_was_not_run_yet(client: httpx.Client) -> None:
    page = client.get("/start").text
    for offered in ("snellen:tiny-xs", "snellen:oracle", "eyechart", "eyechart/colour"):
        assert f"<option>{offered}</option>" in page
    assert 'name="listed_protocols" value="circular"' in page


def test_what_is_chosen_from_lists_joins_what_is_typed(client: httpx.Client) -> None:
    chosen = {
        "token": client.headers["token"],
        "listed_model": "snellen:tiny",
        "model": "",
        "listed_benchmarks": ["eyechart/colour", "eyechart/shape"],
        "benchmarks": "eyechart/count",
        "listed_protocols": ["vanilla", "circular"],
        "protocols": "instability?m=2",
        "limit": "2",
        "look": "1",
    }
    page = client.post("/start", data=chosen, follow_redirects=True).text
    exam = unescape(page[page.index("<pre") :]).partition(">")[2].partition("</pre>")[0]
    fields = tomllib.loads(exam)
    assert fields["models"] == ["snellen:tiny"]
    assert fields["benchmarks"] == ["eyechart/colour", "eyechart/shape", "eyechart/count"]
    assert fields["protocols"] == ["vanilla", "circular", "instability?m=2"]
    assert "<option selected>snellen:tiny</option>" in page
    assert "<option selected>eyechart/shape</option>" in page
    assert 'value="circular" checked' in page and 'value="instability?m=2"' in page
    typed = client.post("/start", data={**chosen, "model": "snellen:oracle"}, follow_redirects=True)
    assert "<option selected>snellen:oracle</option>" in typed.text, "what is typed counts"


# --- a training --------------------------------------------------------------------------------------------------


def test_a_training_has_a_page_with_its_curve_and_its_flips(tmp_path: Path) -> None:
    """Runs of saved checkpoints, labelled on the command line."""
    runs = tmp_path / "runs"
    steps = {0: "snellen:always-a", 500: "snellen:uniform", 1000: "snellen:oracle"}
    for step, model in steps.items():
        name = f"checkpoint-{step}"
        label = f"lora<b>@{step}"
        sn.evaluate(model, "eyechart/shape", limit=16, runs=runs, name=name, label=label)
    sn.evaluate("snellen:uniform", "eyechart/shape", limit=16, runs=runs, name="alone", label="a@1")

    with serving(runs, index=tmp_path / "index.sqlite") as client:
        links = re.findall(r'href="(/training[^"]*)"', client.get("/").text)
        assert links == ["/training?name=lora%3Cb%3E"], "one step is no training"
        assert links[0] in client.get("/run?run=checkpoint-500").text
        assert "/training" not in client.get("/run?run=alone").text
        assert client.get("/training?name=a").status_code == 404

        page = client.get(links[0]).text
        assert "lora<b>" not in page
        assert re.findall(r'href="/run\?run=checkpoint-\d+">([\d,]+)<', page) == [
            "0",
            "500",
            "1,000",
        ]
        results = sn.load_run([runs / f"checkpoint-{step}" for step in steps])
        for row in results:
            assert f"{100 * row.estimate.value:.1f}%" in page
        assert page.count("whisker faint") == len(steps)

        flips = page[page.index('id="flips"') :]
        links = re.findall(r'href="(/questions[^"]*)">(\d+)</a>', flips)
        assert links
        for address, count in links:
            assert f" of {count} questions" in client.get(unescape(address)).text


# --- who may change something ------------------------------------------------------------------------------------

CHANGES = ("/run-note", "/note", "/label", "/start", "/resume", "/stop")


@pytest.mark.parametrize("path", CHANGES)
def test_nobody_changes_anything_without_the_secret_and_the_cookie(
    client: httpx.Client, path: str
) -> None:
    token = client.headers["token"]
    address = str(client.base_url)
    given = {"token": token, "run": "half", "model": "m", "benchmarks": "b"}
    with httpx.Client(base_url=address, trust_env=False, verify=False) as stranger:
        assert stranger.post(path, data=given).status_code == 403, "no cookie"
        assert (
            token not in stranger.get("/").text and token not in stranger.get("/run?run=half").text
        )
    assert client.post(path, data={**given, "token": "wrong"}).status_code == 403
    assert (
        client.post(path, data=given, headers={"origin": "http://evil.example"}).status_code == 403
    )
    assert client.post(path, data=given, headers={"origin": "null"}).status_code == 403
    assert client.post(path, data=given, headers={"host": "evil.example"}).status_code == 400
    assert client.get(path).status_code in (200, 405)


def test_a_wrong_secret_gives_no_cookie_and_read_only_has_none(runs: Path, tmp_path: Path) -> None:
    from snellen.viewing.library import RunLibrary
    from snellen.viewing.local_pages import LocalPages

    with serving(runs, index=tmp_path / "other.sqlite") as client:
        assert not client.get("/?token=guess").cookies and not client.get("/?token=").cookies
        assert (
            "Start a run" not in client.get("/").text and ">Read-only</a>" in client.get("/").text
        )
        assert (
            "Open the complete address that <code>snellen view</code> printed"
            in client.get("/start").text
        )
    assert LocalPages(RunLibrary([runs], tmp_path / "third.sqlite"), read_only=True).secret == ""
