"""Pages of `snellen view` on runs that are not of shares of right answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.records import Failure, Request
from view_runs import Replying, serving


def test_a_question_with_a_wrong_and_an_unparsed_reply_is_counted_as_the_notes_say(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    """Question 0 is answered wrongly twice, then not at all; question 1 rightly, then not at all; the third rightly."""

    def choose(request: Request) -> int:
        number = int(request.sample_id[1:])
        is_unread = request.variant.test >= 2 and number < 2
        return -1 if is_unread else (number + (number == 0)) % 4

    results = sn.evaluate(
        Replying("mixed", choose),
        str(make(small.rows(3)).folder),
        "circular",
        runs=tmp_path / "runs",
        name="run",
    )
    [benchmark] = results.runs[0].benchmarks
    unread = {p.sample_id for p in benchmark.predictions if p.choice is None}
    assert unread == {"q000", "q001"}
    with serving(tmp_path / "runs", index=tmp_path / "index") as client:
        table, page = client.get("/").text, client.get("/run?run=run").text
        assert "of 1 questions" in client.get("/questions?outcome=unparsed").text
    assert re.findall(r'data-label="unparsed"[^>]*><a [^>]*>(\d+)</a>', table) == ["1"]
    assert "questions with an unparsed reply and no wrong one under a protocol" in table
    assert (
        "counts as wrong if any of them is wrong, otherwise as unparsed if any is unparsed" in page
    )


def test_a_finished_run_of_which_every_request_failed_says_so(
    make: Callable[..., Benchmark], tmp_path: Path
) -> None:
    model = sn.Scripted(lambda request: sn.Response(error=Failure("server", "gone")), name="gone")
    folder = str(make(small.rows(2)).folder)
    sn.evaluate(model, folder, "vanilla", runs=tmp_path / "runs", name="run", error_budget=1.0)
    with serving(tmp_path / "runs", index=tmp_path / "index") as client:
        page = client.get("/run?run=run").text
    assert "No question was answered: requests failed." in page and "[no interval]" not in page


def half_in_each_order(request: Request) -> int:
    """Right in the first order of the options; of every second question not in the later ones."""
    number = int(request.sample_id[1:])
    return (number + (request.variant.test > 0 and number % 2)) % 4


def as_text(page: str, start: str, end: str) -> str:
    """The words of a part of a page."""
    part = page[page.index(start) :]
    return " ".join(unescape(re.sub("<[^>]+>", " ", part[: part.index(end)])).split())


@pytest.fixture
def turned(tmp_path: Path) -> Path:
    """`once` was asked in one order and in all, `turned` in all alone; the models differ when options are turned."""
    made: Benchmark = small.built(small.rows(8, pictures=8), tmp_path / "made", name="animals")
    models: list[tuple[str, Callable[[Request], int], list[str]]] = [
        ("once", lambda request: int(request.sample_id[1:]) % 4, ["vanilla", "circular"]),
        ("both", half_in_each_order, ["vanilla", "circular"]),
        ("turned", half_in_each_order, ["circular"]),
    ]
    for name, choose, protocols in models:
        sn.evaluate(
            Replying(name, choose), str(made.folder), protocols, runs=tmp_path / "runs", name=name
        )
    return tmp_path / "runs"


def test_under_a_circular_protocol_the_number_is_the_headline_and_circular_accuracy_is_beside_it(
    turned: Path, tmp_path: Path
) -> None:
    with serving(turned, index=tmp_path / "index") as client:
        page = client.get("/run?run=turned").text
        lead = as_text(page, 'class="lead"', "</p>")
        assert "100.0%" in lead and "accuracy under circular" in lead
        assert 'data-label="accuracy under circular"' in client.get("/?q=turned").text
        row = as_text(page, 'id="benchmarks"', "</table>")
        assert "animals accuracy 100.0%" in row and "correct each time" in row
        assert re.search(
            r"100\.0% \[[^]]*\] n=8 first order only", as_text(page, "All numbers", "</table>")
        )
        assert "circular accuracy" in as_text(page, "All numbers", "</table>")
        assert "50.0%" in as_text(page, "All numbers", "</table>")
        under_vanilla = client.get("/run?run=both").text
        assert "accuracy under vanilla" in as_text(under_vanilla, 'class="lead"', "</p>")
        assert "animals accuracy 100.0%" in as_text(under_vanilla, 'id="benchmarks"', "</table>")


@pytest.mark.parametrize("choice", ["unstable", "disagree"])
def test_questions_are_shown_under_the_protocols_that_they_were_chosen_by(
    turned: Path, tmp_path: Path, choice: str
) -> None:
    with serving(turned, index=tmp_path / "index") as client:
        heads = as_text(client.get(f"/questions?{choice}=1").text, "<thead>", "</thead>")
        assert heads.count("circular") == 3 and "vanilla" not in heads
        assert as_text(client.get("/questions").text, "<thead>", "</thead>").count("vanilla") == 2
        everything = client.get(f"/questions?{choice}=1&columns=all").text
        assert as_text(everything, "<thead>", "</thead>").count("vanilla") == 2


def test_wrong_answers_over_many_runs_say_which_runs_answered_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of five runs three are shown: those that answered wrongly, though three later ones asked something else."""
    animals = small.built(small.rows(4), tmp_path / "animals", name="animals")
    others = small.built(small.rows(2), tmp_path / "others", name="others")

    def right(request: Request) -> int:
        return int(request.sample_id[1:]) % 4

    def wrong(request: Request) -> int:
        return (right(request) + 1) % 4

    runs = tmp_path / "runs"
    for name, choose in (("missed", wrong), ("knew", right)):
        sn.evaluate(Replying(name, choose), str(animals.folder), "vanilla", runs=runs, name=name)
    for name in ("later", "later-still", "last"):
        sn.evaluate(Replying(name, right), str(others.folder), "vanilla", runs=runs, name=name)
    with serving(runs, index=tmp_path / "index") as client:
        page = client.get("/questions?outcome=wrong").text
        assert "missed" in as_text(page, "<thead>", "</thead>")
        lines = re.findall(r'class="where chosen-by">(.*?)</span>', page)
        assert [re.sub(r"<[^>]+>", "", line) for line in lines] == 4 * ["wrong in missed"]
        assert 'class="where chosen-by"' not in client.get("/questions").text
        of_one_run = client.get("/questions?outcome=wrong&run=missed").text
        assert 'class="where chosen-by"' not in of_one_run
