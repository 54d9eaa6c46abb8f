"""The explorer of `snellen serve`: public runs for everybody, and of hidden answers and private runs nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

import small
import snellen as sn
from hosting import RunningServer, hosted
from http_browser import Browser
from snellen.errors import DataError
from snellen.records import Request, Response
from snellen_server.explorer.feature import index_public_runs
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.services import open_services
from view_runs import HOSTILE, Replying

COUNT = 24
PRIVATE = "okapi"
"""In every reply of the private run, and nowhere else."""


class Private(Replying):
    def _reply(self, request: Request) -> Response:
        return Response(text=f"{PRIVATE}: (A)")


def rows(name: str, shift: int) -> list[dict[str, Any]]:
    """Questions whose right answers are moved on by `shift`."""
    made = small.rows(COUNT, pictures=COUNT)
    for number, row in enumerate(made):
        row["id"] = f"{name}-{row['id']}"
        row["answer"] = (number + shift) % 4
    made[3]["question"] = f"Which animal is it? {HOSTILE}"
    return made


def make_runs(folder: Path, shift: int) -> None:
    """Three runs over a hidden and an open benchmark; only the answers of the hidden one depend on `shift`."""
    benchmarks = [
        str(small.built(rows(name, moved), folder / name, name=name).folder)
        for name, moved in (("hidden", shift), ("open", 0))
    ]

    def steady(request: Request) -> int:
        number = int(request.sample_id.rpartition("q")[2])
        return -1 if number % 7 == 0 else (number + (number % 5 == 0)) % 4

    def wavering(request: Request) -> int:
        return (steady(request) + request.variant.test) % 4

    models = {"first": Replying("steady", steady), "second": Replying("wavering", wavering)}
    for day, (name, model) in enumerate(
        {**models, "secret": Private("unreleased", steady)}.items(), 1
    ):
        sn.evaluate(
            model,
            benchmarks,
            ("instability?m=2", "likelihood"),
            runs=folder / "server/runs",
            name=name,
        )
        manifest = folder / "server/runs" / name / "manifest.json"
        started = f'"started": "2026-01-0{day}T00:00:00+00:00"'
        manifest.write_text(re.sub(r'"started": "[^"]*"', started, manifest.read_text()))


def settings(**explorer: Any) -> dict[str, Any]:
    return {"explorer": {"public": ["first", "second"], "answers_of": ["open"], **explorer}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two servers' folders that differ in the answers of the hidden benchmark alone."""
    made = [tmp_path_factory.mktemp(f"explorer{shift}") for shift in range(2)]
    for shift, folder in enumerate(made):
        make_runs(folder, shift)
    return made


@pytest.fixture(scope="module")
def server(folders: list[Path]) -> Iterator[RunningServer]:
    with hosted(folders[0] / "server", feature=settings()) as running:
        asyncio.run(index_public_runs(running.services))
        yield running


QUERIES = [
    {},
    *(
        {"outcome": outcome}
        for outcome in ("right", "wrong", "unparsed", "scored", "answer not known")
    ),
    *({"sort": sort} for sort in ("hardest", "easiest", "unstable", "sample")),
    {"disagree": "1"},
    {"unstable": "1"},
    {"better": "first", "worse": "second"},
    {"better": "second", "worse": "first"},
    {"outcome": "right", "run": "first", "protocol": "likelihood"},
    {"q": "horse"},
    {"tag": "level=easy"},
]
"""All that can be chosen by."""


def crawled(browser: Browser, benchmark: str) -> dict[str, str]:
    """All pages about a benchmark that links and filters lead to, by address; times and tokens are taken out."""
    waiting = [
        f"/explorer/questions?{urlencode({**query, 'benchmark': benchmark})}" for query in QUERIES
    ]
    waiting += [
        "/explorer",
        "/explorer/run?run=first",
        "/explorer/run?run=first&protocol=likelihood",
    ]
    found: dict[str, str] = {}
    while waiting:
        address = waiting.pop()
        if address in found:
            continue
        answer = browser.get(address)
        assert answer.status_code == 200, (address, answer.status_code)
        text = re.sub(r'csrf[-_]token" (?:content|value)="[^"]*"', "", answer.text)
        found[address] = re.sub(r"as of [\d:]+", "", text)
        links = [unescape(link) for link in re.findall(r'href="(/explorer/question\?[^"]*)"', text)]
        waiting += [
            link
            for link in links
            if f"of={benchmark}" in link and not found.get(link) and len(found) < 30
        ]
    return found


def test_nothing_that_can_be_seen_depends_on_hidden_answers(folders: list[Path]) -> None:
    """Two servers with other answers give the same pages, byte for byte; where answers are shown, they do not."""
    seen: list[dict[str, str]] = []
    told: list[str] = []
    for folder in folders:
        with hosted(folder / "server", feature=settings()) as server:
            asyncio.run(index_public_runs(server.services))
            seen.append(crawled(server.visitor(), "hidden"))
        with hosted(folder / "server", feature=settings(answers_of=["hidden"])) as server:
            asyncio.run(index_public_runs(server.services))
            wrong = (
                "/explorer/questions?benchmark=hidden&outcome=wrong&run=first&protocol=likelihood"
            )
            told.append(server.visitor().get(wrong).text)
    assert sum("/question?" in address for address in seen[0]) > 8
    assert seen[0].keys() == seen[1].keys()
    for address, text in seen[0].items():
        assert text == seen[1][address], address
    lists = [set(re.findall(r"sample=(hidden-q\d+)", text)) for text in told]
    assert lists[0] and lists[0] != lists[1]


def test_a_run_without_numbers_says_that_its_answers_are_hidden(folders: list[Path]) -> None:
    with hosted(folders[0] / "server", feature=settings(answers_of=[])) as server:
        asyncio.run(index_public_runs(server.services))
        page = server.visitor().get("/explorer/run?run=first").text
    assert "Its answers and scores are hidden." in page and "Nothing is scored yet" not in page


def test_answers_of_a_board_stay_hidden_whatever_the_explorer_is_told(folders: list[Path]) -> None:
    boards = [{"name": "b", "benchmarks": [str(folders[0] / "hidden")]}]
    feature = {**settings(answers_of=["open", "hidden"]), "leaderboard": {"boards": boards}}
    with hosted(folders[0] / "server", feature=feature) as server:
        asyncio.run(index_public_runs(server.services))
        page = server.visitor().get("/explorer/question?of=hidden&sample=hidden-q005").text
        assert (
            '<dt>correct answer</dt><dd><span class="none">hidden</span>' in page
            and "chosen</td>" in page
        )
        assert "correct</td>" not in page and 'class="badge right"' not in page
        assert "hidden-q" not in server.visitor().get("/explorer/questions?outcome=right").text
    feature["leaderboard"] = {"boards": [{"name": "b", "benchmarks": [str(folders[0] / "gone")]}]}
    with hosted(folders[0] / "server", feature=feature) as server:
        asyncio.run(index_public_runs(server.services))
        assert (
            "No question matches"
            in server.visitor().get("/explorer/questions?unstable=1&q=nothing-like-it").text
        )
        page = server.visitor().get("/explorer/questions?outcome=right&benchmark=open").text
        assert "open-q" in page and 'class="sign right"' not in page and "<option>right" not in page


def test_prompts_that_tell_earlier_answers_are_not_shown_where_these_are_hidden(
    tmp_path: Path,
) -> None:
    told = "dialogue?history=gold"
    runs = tmp_path / "server/runs"
    results = sn.evaluate(
        "snellen:always-a", "eyechart/dialogue", (told, "dialogue"), runs=runs, name="r", limit=2
    )
    sample = next(iter(results.runs[0].benchmarks[0].predictions)).sample_id
    name = results.runs[0].benchmarks[0].spec.name
    address = f"/explorer/question?of={quote(name, safe='')}&sample={sample}&turn=1"
    seen = []
    for shown in ([], [name]):
        with hosted(
            tmp_path / "server", feature={"explorer": {"public": ["r"], "answers_of": shown}}
        ) as server:
            asyncio.run(index_public_runs(server.services))
            seen.append(server.visitor().get(address).text)
    assert ["<bdi>dialogue</bdi>" in page for page in seen] == [True, True]
    assert [f"<bdi>{told}</bdi>" in page for page in seen] == [False, True]


def test_a_question_shows_pictures_options_and_what_each_model_said(server: RunningServer) -> None:
    visitor = server.visitor()
    page = visitor.get("/explorer/question?of=open&sample=open-q005").text
    assert "steady" in page and "wavering" in page and "horse" in page and "correct" in page
    [picture] = set(re.findall(r'src="(/explorer/images/[0-9a-f]{64})"', page))
    answer = visitor.get(picture)
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/png"
    hostile = visitor.get("/explorer/question?of=open&sample=open-q003").text
    assert "<script>document.title" not in hostile and "&lt;script&gt;" in hostile
    listed = visitor.get(
        "/explorer/questions?benchmark=open&run=first&protocol=likelihood&outcome=wrong"
    ).text
    wrong = {f"open-q{n:03d}" for n in range(COUNT) if n % 5 == 0}
    likely = {f"open-q{n:03d}" for n in range(COUNT) if n % 7 == 0}
    assert wrong - likely <= set(re.findall(r"sample=(open-q\d+)", listed))


def test_a_link_to_a_selection_can_be_shared(server: RunningServer) -> None:
    address = "/explorer/questions?benchmark=open&outcome=unparsed&run=first"
    listed = [server.visitor().get(address).text, server.signed_in("Anna").get(address).text]
    samples = [sorted(set(re.findall(r"sample=(open-q\d+)", text))) for text in listed]
    assert samples[0] == samples[1] == [f"open-q{n:03d}" for n in range(0, COUNT, 7)]


def test_a_private_run_is_nowhere(server: RunningServer) -> None:
    for browser in (server.visitor(), server.signed_in("Anna"), server.admin()):
        for address in (
            "/explorer",
            "/explorer?q=secret",
            f"/explorer/questions?q={PRIVATE}",
            "/explorer/questions?run=secret",
            "/explorer/question?of=open&sample=open-q001&run=secret",
            "/explorer/questions?better=secret&worse=first",
        ):
            text = (
                browser.get(address)
                .text.replace(f'value="{PRIVATE}"', "")
                .replace(f"q={PRIVATE}", "")
            )
            assert "unreleased" not in text and PRIVATE not in text, address
        assert "No question matches" in browser.get(f"/explorer/questions?q={PRIVATE}").text
        assert "No question matches" in browser.get("/explorer/questions?run=secret").text


@pytest.mark.parametrize(
    "address",
    [
        "/explorer/exchanges.json?run=first&of=open&sample=open-q001",
        "/explorer/images/" + "0" * 64,
        "/explorer/images/..%2f..%2fkey",
        "/explorer/question?of=open&sample=nothing",
        "/explorer/question",
        "/explorer/question?of=open&sample=open-q001&turn=7",
        "/explorer/run?run=secret",
        "/explorer/compare?run=first",
    ],
)
def test_what_is_not_there_is_not_there_and_no_folder_is_named(
    address: str, server: RunningServer, folders: list[Path]
) -> None:
    answer = server.visitor().get(address)
    assert answer.status_code == 404 and str(folders[0]) not in answer.text


def test_without_public_runs_there_is_a_page_that_says_so(tmp_path: Path) -> None:
    with hosted(tmp_path / "server") as server:
        assert "No run is public" in server.visitor().get("/explorer").text
        assert "No run is public" in server.visitor().get("/explorer/run?run=first").text
        assert server.visitor().get("/explorer/images/" + "0" * 64).status_code == 404
    for public in ("..", "a/b", ""):
        with pytest.raises(DataError, match="public"):
            open_services(
                load_configuration(
                    tmp_path / "server", None, feature={"explorer": {"public": [public]}}
                )
            )
