"""The leaderboard of `snellen serve`: submissions over real HTTP, and what nobody may learn from them."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

import small
import snellen as sn
from hosting import RunningServer, hosted
from http_browser import Browser
from leaderboard_parts import (
    QUESTIONS,
    SECRET,
    as_jsonl,
    as_parquet,
    as_xlsx,
    board,
    gold,
    hidden_benchmark,
    open_benchmark,
    other,
    predictions,
    scored,
    settled,
    upload,
)
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError
from snellen.records import Request
from snellen_server.hosting.configuration import load_configuration
from snellen_server.hosting.services import open_services
from snellen_server.leaderboard import submissions
from snellen_server.leaderboard.boards import Board
from snellen_server.leaderboard.checking import (
    UploadedRow,
    UploadFindings,
    UploadLimits,
    read_upload,
    upload_suffix,
)
from snellen_server.leaderboard.releasing import (
    PublishedNumber,
    questions_needed,
    release_number,
    widening,
)
from snellen_server.leaderboard.scoring_process import (
    ExactNumber,
    ScoringOutcome,
    ScoringTask,
    score_upload,
)
from snellen_server.leaderboard.standings import standings
from snellen_server.leaderboard.submissions import DeclaredFacts, Submission
from view_runs import Replying

LIMITS = UploadLimits(rows=1000, unpacked_bytes=1_000_000)


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return hidden_benchmark(tmp_path_factory.mktemp("hidden"))


@pytest.fixture(scope="module")
def server(animals: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("leaderboard")
    opened = open_benchmark(folder)
    boards = [
        board(animals, title="Animals", breakdown=["level", "answer"], smallest_group=20),
        board(opened, name="open"),
        board(animals, name="daily", a_day=1),
    ]
    with hosted(
        folder / "server", feature={"leaderboard": {"boards": boards, "upload_bytes": 100_000}}
    ) as running:
        yield running


@pytest.fixture
def anna(server: RunningServer) -> Browser:
    return server.with_key("Anna", "submit")


# --- what is read and checked ------------------------------------------------------------------------------------


@pytest.fixture
def score(
    animals: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ScoringOutcome]:
    """Scores a file as the process does, in this one."""
    folders = (tmp_path / str(number) for number in range(100))

    def scoring(content: bytes, name: str = "predictions.jsonl", **changes: Any) -> ScoringOutcome:
        folder = next(folders)
        folder.mkdir()
        monkeypatch.chdir(folder)
        (folder / name).write_bytes(content)
        task = ScoringTask(
            folder=str(folder),
            file=name,
            benchmarks=(str(animals.folder), *changes.pop("others", ())),
            presentations=changes.pop("presentations", 1),
            breakdown=changes.pop("breakdown", ()),
            smallest_group=20,
            limits=LIMITS,
            memory_bytes=0,
        )
        return score_upload(task)

    return scoring


def test_noise_hides_the_answer_that_weighs_most_in_a_published_mean(
    score: Callable[..., ScoringOutcome], tmp_path: Path
) -> None:
    rows = small.rows(QUESTIONS, pictures=QUESTIONS)
    for number, row in enumerate(rows):
        row["tag_part"] = "few" if number < 4 else "many"
    halves = small.built(rows, tmp_path / "halves", name="halves", mean_over="part")

    def number_of(wrong: int | None) -> ExactNumber:
        answers = predictions(lambda i: other(i) if i == wrong else gold(i))
        both = [{**row, "benchmark": name} for name in ("animals", "halves") for row in answers]
        outcome = score(as_jsonl(both), others=(str(halves.folder),))
        [number] = [one for one in outcome.numbers if one.benchmark == "halves"]
        return number

    all_right = number_of(None)
    # The mean of both parts: one of four answers is an eighth of it, which is five of forty.
    assert all_right.metric == "published_mean" and all_right.value == 1.0
    assert number_of(0).value == pytest.approx(1 - 1 / 8)
    published = release_number(all_right, 2.0, lambda purpose: 0.5)
    assert published.noise == pytest.approx(2 / 8)
    assert published.noise_answers == pytest.approx(2 * QUESTIONS / 8)


def test_signs_tell_readings_apart(score: Callable[..., ScoringOutcome], tmp_path: Path) -> None:
    rows = [
        {
            "id": f"q{i:03d}",
            "question": f"What is {i} less 9?",
            "answer": "-5",
            "image": small.cell(i),
        }
        for i in range(QUESTIONS)
    ]
    sums = small.built(rows, tmp_path / "sums", name="sums")

    def readings_of(text: str) -> bytes:
        both = [
            *({**row, "benchmark": "animals"} for row in predictions()),
            *({**row, "benchmark": "sums"} for row in predictions(lambda i: text)),
        ]
        return score(as_jsonl(both), others=(str(sums.folder),)).readings["sums"]

    assert readings_of("-5") == readings_of(" -5. ")
    assert readings_of("-5") != readings_of("5")


def test_what_does_not_fit_the_questions_is_counted_and_ten_are_named(
    score: Callable[..., ScoringOutcome],
) -> None:
    rows = (
        predictions()[:-12]
        + [{"id": f"x{i}", "prediction": "A"} for i in range(11)]
        + predictions()[:2]
    )
    rows += [{"prediction": "B"}, {"id": "q003"}, {"id": "q004", "prediction": "A", "turn": 1}]
    outcome = score(as_jsonl(rows))
    faults = {one.kind: one for one in outcome.faults}
    assert outcome.refused and outcome.rows == QUESTIONS - 12 + 16 and outcome.numbers == ()
    assert {kind: one.count for kind, one in faults.items()} == {
        "unknown ids": 11,
        "missing questions": 12,
        "duplicate questions": 2,
        "rows without an id": 1,
        "rows without a prediction (an empty text where the model gave none)": 1,
        "rows with a round that their dialogue does not have": 1,
    }
    assert faults["unknown ids"].named == tuple(f"x{i}" for i in range(10))
    assert faults["unknown ids"].sentence.endswith("x9, ...)")
    assert faults["duplicate questions"].named == ("q000", "q001")


def test_options_in_another_order_are_read_in_that_order(
    score: Callable[..., ScoringOutcome],
) -> None:
    turned = list(reversed(small.ANIMALS[:4]))
    rows = [
        {"id": f"q{i:03d}", "prediction": "DCBA"[i % 4], "options": turned}
        for i in range(QUESTIONS)
    ]
    lower = [
        {**row, "prediction": str(row["prediction"]).lower(), "labels": list("abcd")}
        for row in rows
    ]
    scores = [
        {"id": f"q{i:03d}", "scores": [-3.0 + (place == i % 4) for place in range(4)]}
        for i in range(QUESTIONS)
    ]
    for some in (rows, lower, scores):
        outcome = score(as_jsonl(some))
        assert [one.value for one in outcome.numbers] == [1.0], outcome
    foreign = score(as_jsonl([{**row, "options": [*turned[:3], "dragon"]} for row in rows]))
    assert foreign.faults[0].kind == "rows with options that differ from those of their question"
    three = score(as_jsonl([{**row, "options": turned[:3]} for row in rows]))
    assert three.faults[0].count == QUESTIONS


def test_a_row_that_contradicts_itself_is_refused(score: Callable[..., ScoringOutcome]) -> None:
    rows = predictions()
    rows[3] |= {"index": "q004"}
    rows[5] |= {"index": "q005"}
    rows[6] |= {"index": 6}  # a number that names no question
    rows[7] |= {"labels": ["A", "B", " ", "D"]}
    assert {fault.kind: fault.named for fault in score(as_jsonl(rows)).faults} == {
        "rows whose id and index name different questions": ("row 4",),
        "rows with an empty label": ("row 8",),
        "missing questions": ("q003", "q007"),
    }


def test_a_reply_beside_scores_is_left_out_with_a_note(
    score: Callable[..., ScoringOutcome],
) -> None:
    scores = [[-3.0 + (place == i % 4) for place in range(4)] for i in range(QUESTIONS)]
    rows = [{"id": f"q{i:03d}", "scores": scores[i], "prediction": ""} for i in range(QUESTIONS)]
    assert score(as_jsonl(rows)).notes == ()
    outcome = score(
        as_jsonl([{**row, "prediction": "A"} if i < 2 else row for i, row in enumerate(rows)])
    )
    assert [number.value for number in outcome.numbers] == [1.0]
    assert [note.sentence for note in outcome.notes] == [
        "rows with a prediction and scores, read by their scores: 2 (row 1, row 2)"
    ]


def test_several_rows_of_a_question_are_its_presentations(
    score: Callable[..., ScoringOutcome],
) -> None:
    rows = predictions() + predictions(lambda i: gold(i) if i % 2 else other(i))
    outcome = score(as_jsonl(rows), presentations=2)
    assert [one.value for one in outcome.numbers] == [0.75]
    assert "questions with too few rows" in {
        one.kind for one in score(as_jsonl(rows[1:]), presentations=2).faults
    }


def test_a_board_of_several_benchmarks_asks_which_one_a_row_is_of(
    score: Callable[..., ScoringOutcome], tmp_path: Path
) -> None:
    beasts = str(hidden_benchmark(tmp_path, "beasts", 8).folder)
    own = [{**row, "benchmark": "animals"} for row in predictions()]
    others = [{**row, "benchmark": "beasts"} for row in predictions(other, 8)]
    outcome = score(as_jsonl([*own, *others]), others=(beasts,))
    assert [(one.benchmark, one.value, one.n) for one in outcome.numbers] == [
        ("animals", 1.0, 40),
        ("beasts", 0.0, 8),
    ]
    faults = {
        one.kind: one.named
        for one in score(as_jsonl([*own, *predictions(other, 8)]), others=(beasts,)).faults
    }
    assert faults["missing questions"][0] == "beasts q000"
    assert faults["rows of no benchmark of this board (column benchmark)"][0] == "row 41"


def test_what_any_metric_tells_apart_has_noise_of_its_own(
    score: Callable[..., ScoringOutcome], tmp_path: Path
) -> None:
    folder = str(open_benchmark(tmp_path).folder)
    own = [{**row, "benchmark": "animals"} for row in predictions()]
    contents = []
    for text in ("Ox", "ox"):
        others = [{"id": f"o{i:03d}", "benchmark": "open", "prediction": text} for i in range(12)]
        contents.append(score(as_jsonl([*own, *others]), others=(folder,)).contents)
    assert (
        contents[0]["animals"] == contents[1]["animals"]
        and contents[0]["open"] != contents[1]["open"]
    )
    # Accuracy sees of scores which option is first, and no more: no epsilon draws again.
    shifted = [
        [{"id": f"q{i:03d}", "scores": scores} for i in range(QUESTIONS)]
        for scores in ([3, 2, 1, 0], [3.0000001, 2, 1, 0], [3, 0, 1, 2])
    ]
    outcomes = [score(as_jsonl(rows)) for rows in shifted]
    assert len({outcome.contents["animals"] for outcome in outcomes}) == 1
    assert outcomes[0].numbers == outcomes[2].numbers


def test_refusals_name_no_answer(score: Callable[..., ScoringOutcome], tmp_path: Path) -> None:
    opened = open_benchmark(tmp_path)
    rows = [
        {"id": f"o{i:03d}", "benchmark": "open", "prediction": "x", "options": ["a", "b"]}
        for i in range(12)
    ]
    outcome = score(as_jsonl(rows), others=(str(opened.folder),))
    assert outcome.refused and SECRET not in str(outcome)


def test_parts_are_of_the_samples_own_tags_and_large_enough(
    score: Callable[..., ScoringOutcome],
) -> None:
    outcome = score(
        as_parquet(predictions()), "p.parquet", breakdown=("level", "answer", "nothing")
    )
    assert [(one.slice, one.n) for one in outcome.numbers] == [
        ("", 40),
        ("level=easy", 20),
        ("level=hard", 20),
    ]


def xlsx_of(members: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, text in members.items():
            pack.writestr(name, text)
    return file.getvalue()


def bomb_sheet() -> bytes:
    """Twenty kilobytes that unpack to twenty megabytes."""
    return xlsx_of(
        {"xl/workbook.xml": "<a/>", "xl/worksheets/sheet1.xml": "<a>" + " " * 20_000_000 + "</a>"}
    )


def entity_sheet() -> bytes:
    laughs = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><a>&b;</a>'
    return xlsx_of({"xl/workbook.xml": laughs, "xl/_rels/workbook.xml.rels": laughs})


def sheet_of(rows: list[tuple[str, str]]) -> bytes:
    """A sheet of ids and predictions, as XML; what begins with = is a formula."""
    cells = [
        [
            f"<f>{text[1:]}</f>" if text.startswith("=") else f"<is><t>{text}</t></is>"
            for text in row
        ]
        for row in rows
    ]
    lines = [
        "".join(f'<c t="inlineStr">{cell}</c>' for cell in row)
        for row in [["<is><t>id</t></is>", "<is><t>prediction</t></is>"], *cells]
    ]
    names = (
        'xmlns="m" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    )
    return xlsx_of(
        {
            "xl/workbook.xml": f'<workbook {names}><sheets><sheet name="s" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": '<a xmlns="m"><Relationship Id="r1" Target="sheet1.xml"/></a>',
            "xl/sheet1.xml": f"<sheet {names}>{''.join(f'<row>{line}</row>' for line in lines)}</sheet>",
        }
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", b'{"id": ' + b"[" * 100_000, "line 1"),
        ("p.jsonl", b'{"id": "q001", "prediction": ["A"]}\n', "line 1: Expected"),
        ("p.jsonl", b'{"id": "q001", "prediction": "\xff"}\n', "line 1"),
        (
            "p.jsonl",
            b'{"id": "q001", "prediction": "' + b"a" * 100_001 + b'"}',
            "row 1: the prediction has more",
        ),
        ("p.jsonl", b'{"id": "q001", "prediction": "A"}\n' * 1001, "more than 1,000 rows"),
        (
            "p.jsonl",
            b'{"id": "q001", "prediction": "A"}\n{"id": "q002", "prediction": "\\ud83d"}',
            "line 2: a text contains half",
        ),
        (
            "p.jsonl",
            b'{"id": "q001", "prediction": "\\ud83d\\u0041"}',
            "line 1: a text contains half of a surrogate pair",
        ),
        (
            "p.jsonl",
            b'{"id": "q001", "prediction": "\\\\ud83d"',
            "line 1: Input data was truncated",
        ),
        ("p.xlsx", sheet_of([("q000", "_xD83D_")]), "row 1: a text contains half"),
        ("p.xlsx", entity_sheet(), "document type"),
        ("p.xlsx", b"PK\x03\x04 and nothing", "not a readable .xlsx file"),
        ("p.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1", "cannot read the Parquet file"),
        (
            "p.parquet",
            as_parquet([{"id": f"q{i}", "prediction": "A"} for i in range(1001)]),
            "1,001 rows",
        ),
        (
            "p.parquet",
            as_parquet([{"id": "q001", "prediction": "A" * 99_999}] * 20),
            "unpacks to more than 0 MiB",
        ),
    ],
)
def test_a_hostile_file_is_refused_in_a_line_without_a_path(
    name: str, content: bytes, message: str, score: Callable[..., ScoringOutcome], tmp_path: Path
) -> None:
    outcome = score(content, name)
    assert message in outcome.refused and outcome.numbers == ()
    assert str(tmp_path) not in outcome.refused and "\n" not in outcome.refused


def read_rows(path: Path) -> list[UploadedRow]:
    return read_upload(path, LIMITS, UploadFindings())


def test_a_mark_of_utf8_before_the_first_line_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "q001", "prediction": "A"}\r\n')
    assert [(row.name, row.reply) for row in read_rows(tmp_path / "p.jsonl")] == [("q001", "A")]


def test_a_sheet_that_unpacks_to_much_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "p.xlsx").write_bytes(bomb_sheet())
    with pytest.raises(
        DataError, match="uncompressed size is 19 MiB, more than the limit of 0 MiB"
    ):
        read_rows(tmp_path / "p.xlsx")


def test_a_file_is_what_it_is_called() -> None:
    assert upload_suffix("C:\\my files\\Answers.XLSX", b"PK\x03\x04...") == ".xlsx"
    for name, content in (
        ("a.xlsx", b"{}"),
        ("a.parquet", b"PK\x03\x04"),
        ("a.pkl", b""),
        ("jsonl", b""),
        ("", b""),
    ):
        with pytest.raises(DataError):
            upload_suffix(name, content)


# --- what is published -------------------------------------------------------------------------------------------


def exact(right: float, n: int = 200, units: int = 200) -> ExactNumber:
    return ExactNumber(
        benchmark="b",
        metric="accuracy",
        slice="",
        value=right / n,
        n=n,
        units=units,
        least=0.0,
        greatest=1.0,
        unit="share",
        better="higher",
    )


def grid(count: int) -> list[float]:
    return [(i + 0.5) / count for i in range(count)]


@pytest.mark.parametrize("right", [0, 1, 77, 199])
def test_one_answer_changes_the_odds_of_what_is_published_by_no_more_than_is_promised(
    right: int,
) -> None:
    """For every number that can be published; at the ends of the scale too."""
    draws = grid(5_000)
    before, after = (
        Counter(release_number(exact(count), 2.0, lambda _, u=u: u).value for u in draws)
        for count in (right, right + 1)
    )
    for value in before | after:
        # A border between two numbers may fall to either side of a draw of the grid.
        assert before[value] <= math.exp(1 / 2.0) * after[value] + 2
        assert after[value] <= math.exp(1 / 2.0) * before[value] + 2
    assert len(before) > 5


def test_noise_is_unbiased_but_at_the_ends_and_intervals_hold_the_exact_number() -> None:
    found = [release_number(exact(100), 2.0, lambda _, u=u: u) for u in grid(4000)]
    assert sum(one.value for one in found) / len(found) == pytest.approx(0.5, abs=1e-4)
    inside = sum(one.low <= 0.5 <= one.high for one in found) / len(found)
    assert inside > 0.999  # of an interval that is to hold for other questions too
    assert min(one.high - one.low for one in found) > 0.13  # Wilson's alone, of 100 in 200


@given(
    answers=st.floats(0.1, 20),
    widest=st.floats(0.002, 1),
    smaller=st.integers(1, 10),
    larger=st.integers(0, 1000),
)
def test_fewer_questions_than_are_needed_have_wider_noise_and_more_have_not(
    answers: float, widest: float, smaller: int, larger: int
) -> None:
    needed = questions_needed(answers, widest)
    assert widening(needed + larger, answers) <= widest + 1e-9
    assert needed <= smaller or widening(needed - smaller, answers) > widest


def published(value: float, half: float, benchmark: str = "a", n: int = 1000) -> PublishedNumber:
    return PublishedNumber(
        benchmark=benchmark,
        metric="accuracy",
        slice="",
        value=value,
        low=value - half,
        high=value + half,
        n=n,
        noise=2 / n,
        unit="share",
        better="higher",
    )


BOARD = Board(name="b", benchmarks=("a",), noise_answers=2.0)


def entry(
    name: str, *numbers: PublishedNumber, is_public: bool = True, build: str = "1"
) -> Submission:
    return Submission(
        id=name,
        board="b",
        account_id="x",
        account_name="X",
        state="scored",
        is_public=is_public,
        model=name,
        facts=DeclaredFacts(),
        file_digest="",
        file_bytes=0,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        finished=None,
        snellen_version="",
        builds={one.benchmark: (build, build) for one in numbers},
        rows=0,
        faults=(),
        refusal="",
        numbers=numbers,
    )


def test_entries_that_intervals_cannot_tell_apart_share_a_rank() -> None:
    some = [
        entry("low", published(0.2, 0.05)),
        entry("high", published(0.9, 0.05)),
        entry("near", published(0.85, 0.05)),
        entry("own", published(0.95, 0.01), is_public=False),
        entry("old", published(0.99, 0.001), build="0"),
    ]
    found = standings(BOARD, some, {"a": ("1", "1")})
    ranks = [(one.entry.model, one.best, one.rank_interval) for one in found]
    assert ranks == [
        ("own", 1, "[1, 2]"),
        ("high", 1, "[1, 2]"),
        ("near", 1, "[1, 2]"),
        ("low", 3, ""),
        ("old", 0, ""),
    ]
    by_name = standings(BOARD, some, {"a": ("1", "1")}, order="model")
    assert [one.entry.model for one in by_name] == ["high", "low", "near", "old", "own"]


def test_a_board_does_not_rank_what_is_mostly_noise() -> None:
    assert BOARD.questions_needed == 130
    some = [entry("few", published(0.9, 0.05, n=129)), entry("enough", published(0.2, 0.05, n=130))]
    found = standings(BOARD, some, {"a": ("1", "1")})
    assert [(one.entry.model, one.best, one.note) for one in found] == [
        ("enough", 1, ""),
        ("few", 0, "not ranked: too few questions for the noise"),
    ]
    # The noise of a mean is less than that of either part, and is judged by what it is.
    both = entry("both", published(0.2, 0.1, n=100), published(0.6, 0.1, "b", n=100))
    builds = {"a": ("1", "1"), "b": ("1", "1")}
    assert [standings(BOARD, [both], builds, by)[0].best for by in ("", "a", "b")] == [1, 0, 0]
    one_is_tiny = entry("tiny", published(0.2, 0.01, n=100_000), published(0.6, 0.5, "b", n=4))
    assert [standings(BOARD, [one_is_tiny], builds, by)[0].best for by in ("", "a", "b")] == [
        0,
        1,
        0,
    ]


def test_the_mean_of_several_benchmarks_is_of_what_is_published() -> None:
    one = entry("m", published(0.2, 0.03), published(0.6, 0.04, "b"))
    [found] = standings(BOARD, [one], {"a": ("1", "1"), "b": ("1", "1")})
    mean = found.numbers["mean"]
    assert (mean.value, mean.high - mean.value) == pytest.approx((0.4, 0.025))


# --- over HTTP ---------------------------------------------------------------------------------------------------


def test_the_same_predictions_get_the_same_numbers_in_every_form(
    anna: Browser, tmp_path: Path
) -> None:
    rows = predictions(lambda i: gold(i) if i % 4 else other(i))
    wordy = [
        {"id": row["id"], "prediction": f"The answer is ({row['prediction']})."} for row in rows
    ]
    first = scored(anna, as_jsonl(rows), model="Mine", parameters="7B", remark="greedy")
    again = scored(anna, as_xlsx(list(reversed(wordy)), tmp_path / "p.xlsx"), "p.xlsx")
    assert first["state"] == "scored", first
    assert again["numbers"] == first["numbers"] and again["file_digest"] != first["file_digest"]
    assert [(one["slice"], one["n"]) for one in first["numbers"]] == [
        ("", 40),
        ("level=easy", 20),
        ("level=hard", 20),
    ]
    [whole, *_] = first["numbers"]
    assert whole["low"] < 0.751 and whole["high"] > 0.749 and whole["noise"] == 0.05
    assert (first["model"], first["parameters"], first["rows"]) == ("Mine", "7B", QUESTIONS)
    assert first["snellen_version"] == sn.__version__ and len(first["file_digest"]) == 64


def test_noise_follows_from_what_is_predicted_of_that_benchmark_alone(
    server: RunningServer,
) -> None:
    def released(content: str, noise: float = 2.0) -> list[float]:
        draw = submissions._noise_source(server.services, BOARD, content)(noise)
        return [
            release_number(replace(exact(100), slice=f"part={i}"), noise, draw).value
            for i in range(20)
        ]

    assert released("1") == released("1") != released("2")
    # Under two scales the same draw would give the exact number away.
    wider = released("1", 4.0)
    pairs = zip(released("1"), wider, strict=True)
    assert any(abs(2 * near - far - 0.5) > 0.02 for near, far in pairs)


def test_a_submitter_is_told_how_the_file_was_read(anna: Browser) -> None:
    rows = [
        (row["id"], row["prediction"] if i < QUESTIONS - 3 else "=1+1")
        for i, row in enumerate(predictions())
    ]
    facts = scored(anna, sheet_of(rows), "p.xlsx")
    kind = "cells with formulas, read as text"
    assert facts["state"] == "scored" and facts["notes"] == [
        {"kind": kind, "count": 3, "named": []}
    ]
    assert f"<li>{kind}: 3</li>" in anna.get(facts["address"]).text


def test_a_private_entry_is_seen_by_nobody_else_and_a_public_one_by_all(
    server: RunningServer, anna: Browser
) -> None:
    facts = scored(anna, as_jsonl(predictions()), model="Secretive", organisation="Hidden Lab")
    page, api = facts["address"], f"/api/v1/submissions/{facts['id']}"
    strangers = [
        server.visitor(),
        server.signed_in("Ben"),
        server.with_key("Ben", "submit"),
        server.admin(),
    ]
    for stranger in strangers:
        for address in (
            "/leaderboard/animals",
            "/api/v1/boards/animals/entries",
            "/leaderboard",
            "/",
        ):
            assert "Secretive" not in stranger.get(address).text
        refused = [stranger.get(page), stranger.get(api)]
        assert [one.status_code for one in refused] == [404, 404]
        missing = stranger.get(page.replace(facts["id"], "0" * 24))
        assert re.sub("[0-9a-f]{24}", "", refused[0].text) == re.sub(
            "[0-9a-f]{24}", "", missing.text
        )
    ben = server.with_key("Ben", "submit")
    assert ben.http.patch(api, json={"is_public": True}).status_code == 404
    assert ben.http.delete(api).status_code == 404
    assert (
        server.with_key("Anna").http.patch(api, json={"is_public": True}).status_code == 403
    )  # without the scope
    assert anna.http.patch(api, json={"is_public": True}).json()["is_public"]
    for stranger in strangers:
        assert "Secretive" in stranger.get("/leaderboard/animals").text
        assert stranger.get(api).json()["organisation"] == "Hidden Lab"
    assert anna.http.delete(api).status_code == 204
    assert [one.get(api).status_code for one in (anna, *strangers)] == [404] * 5


def test_an_account_has_so_many_a_day_and_what_tells_nothing_does_not_count(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleo = server.with_key("Cleo", "submit")
    refused = scored(cleo, as_jsonl(predictions()[1:]), board="daily")
    assert (refused["state"], refused["numbers"]) == ("refused", [])
    assert [one["kind"] for one in refused["faults"]] == ["missing questions"]
    monkeypatch.setattr(server.services.jobs, "wake", lambda name: None)
    first = upload(cleo, as_jsonl(predictions()), board="daily").json()
    second = upload(cleo, as_jsonl(predictions(other)), board="daily")
    assert second.status_code == 422 and "within 24 hours" in second.json()["error"]["message"]
    assert cleo.http.delete(f"/api/v1/submissions/{first['id']}").status_code == 204
    assert upload(cleo, as_jsonl(predictions(other)), board="daily").status_code == 422
    dora = server.with_key("Dora", "submit")
    sent = upload(dora, as_jsonl(predictions()), board="daily")
    assert sent.status_code == 201
    assert dora.http.delete(f"/api/v1/submissions/{sent.json()['id']}").status_code == 204


def test_what_cannot_be_an_upload_is_refused_at_once(server: RunningServer, anna: Browser) -> None:
    content = as_jsonl(predictions())
    assert (
        upload(server.visitor(accept="application/json"), content).status_code == 403
    )  # no CSRF token
    assert upload(server.with_key("Anna"), content).status_code == 403
    assert upload(anna, content, "p.pkl").status_code == 422
    assert upload(anna, content, "p.xlsx").status_code == 422
    assert upload(anna, content, model=" ").status_code == 422
    assert upload(anna, content, address="javascript:alert(1)").status_code == 422
    assert upload(anna, content, board="nothing").status_code == 404
    assert upload(anna, b" " * 200_000).status_code == 413


def addresses_of(server: RunningServer, entry: str) -> list[str]:
    """All that can be read, from the document and from the pages."""
    document = server.visitor().get("/openapi.json").json()
    values = defaultdict(lambda: "0" * 64, board="open", submission_id=entry)
    api = [
        path.format_map(values) for path, methods in document["paths"].items() if "get" in methods
    ]
    pages = [
        "/",
        "/leaderboard",
        "/leaderboard/open",
        "/leaderboard/open/submit",
        "/leaderboard/open/template.jsonl",
    ]
    pages += [
        f"/leaderboard/open/entries/{entry}",
        "/leaderboard/open?benchmark=quagga&order=quagga",
        "/account",
    ]
    return [
        *api,
        *pages,
        "/api/v1/boards/open/entries?benchmark=open&order=newest",
        "/openapi.json",
    ]


def test_no_address_tells_an_answer_or_which_sample_is_right(
    server: RunningServer, anna: Browser
) -> None:
    """One upload is right in one sample alone, the other in none: nothing but a noisy number may differ."""
    seen = []
    browser = server.signed_in("Anna")
    for reply in (f"{SECRET} 5", "zebra 5"):
        rows = [
            {"id": f"o{i:03d}", "prediction": reply if i == 5 else "zebra", "answer": "?"}
            for i in range(12)
        ]
        facts = scored(anna, as_jsonl(rows), board="open", is_public="true")
        assert facts["state"] == "scored", facts
        texts = {a: browser.get(a).text for a in addresses_of(server, facts["id"])}
        for address, text in texts.items():
            assert SECRET not in text.replace("?benchmark=quagga&amp;order=quagga", ""), address
            if not address.endswith(("samples", "template.jsonl")):
                assert "o005" not in text, address
        assert server.visitor().get("/account/export").status_code == 303
        assert SECRET not in browser.get("/account/export").text
        seen.append(facts)
    changing = {"id", "address", "file_digest", "created", "finished", "numbers"}
    same = [{name: value for name, value in one.items() if name not in changing} for one in seen]
    assert same[0] == same[1]
    assert not list((server.services.configuration.folder / "submissions").rglob("predictions*"))


def test_a_submission_that_takes_too_long_is_given_up(animals: Benchmark, tmp_path: Path) -> None:
    feature = {"leaderboard": {"boards": [board(animals)], "seconds": 0}}
    with hosted(tmp_path / "server", feature=feature) as server:
        facts = scored(server.with_key("Anna", "submit"), as_jsonl(predictions()))
    assert (facts["state"], facts["refusal"]) == (
        "failed",
        "scoring took longer than the limit",
    )


def test_what_waits_when_the_server_stops_is_scored_when_it_is_back(
    animals: Benchmark, tmp_path: Path
) -> None:
    feature = {"leaderboard": {"boards": [board(animals)]}}
    with hosted(tmp_path / "server", feature=feature) as server:
        sent = upload(server.with_key("Anna", "submit"), as_jsonl(predictions())).json()
    with hosted(tmp_path / "server", feature=feature) as server:
        assert settled(server.with_key("Anna"), sent["id"])["state"] == "scored"


def test_a_submission_is_tried_three_times_and_no_more(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = server.services.database
    monkeypatch.setattr(server.services.jobs, "wake", lambda name: None)
    sent = upload(server.with_key("Eve", "submit"), as_jsonl(predictions())).json()
    taken = [database.write_now(submissions.take_next) for _ in range(4)]
    assert [row and row.id for row in taken] == [sent["id"]] * 3 + [None]
    assert (
        server.with_key("Eve").get(f"/api/v1/submissions/{sent['id']}").json()["state"] == "failed"
    )


def test_boards_that_cannot_be_are_refused_at_the_start(animals: Benchmark, tmp_path: Path) -> None:
    for boards in (
        [board(animals, name="No!")],
        [board(animals), board(animals)],
        [board(animals, a_day=0)],
    ):
        with pytest.raises(DataError, match=r"\[feature.leaderboard\]"):
            open_services(
                load_configuration(
                    tmp_path / "server", None, feature={"leaderboard": {"boards": boards}}
                )
            )
    hidden = small.built(
        [{k: v for k, v in row.items() if k != "answer"} for row in small.rows(4)],
        tmp_path / "no",
        name="no",
    )
    with hosted(
        tmp_path / "server", feature={"leaderboard": {"boards": [board(hidden)]}}
    ) as server:
        assert "leaderboard" in server.visitor().get("/readyz").json()["missing"]
        page = server.visitor().get("/leaderboard/animals")
        assert page.status_code == 503 and str(tmp_path) not in page.text


# --- by page and by command --------------------------------------------------------------------------------------


def test_a_form_that_is_refused_keeps_what_was_typed(server: RunningServer) -> None:
    browser = server.signed_in("Finn")
    answer = browser.post(
        "/leaderboard/animals/submit",
        {"model": "My <b>model</b>", "remark": "hot"},
        files={"file": ("a.pkl", b"", "application/octet-stream")},
    )
    assert answer.status_code == 422 and "predictions must be" in answer.text
    assert "My &lt;b&gt;model" in answer.text and ">hot</textarea>" in answer.text
    assert server.visitor().get("/leaderboard/animals/submit").status_code == 303


def test_a_run_is_published_with_one_command(
    server: RunningServer,
    animals: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    def choose(request: Request) -> int:
        return int(request.sample_id[1:]) % 4

    sn.evaluate(Replying("mine", choose), str(animals.folder), ("vanilla", "likelihood"), name="r")
    program = server.with_key("Gina", "submit")
    monkeypatch.setenv(
        "SNELLEN_TOKEN", program.http.headers["authorization"].removeprefix("Bearer ")
    )
    run = ("publish", "runs/r", "--to", server.url, "--board", "animals")
    code, _, err = small.command(capsys, *run)
    assert code and "--protocol" in err
    code, _, err = small.command(capsys, *run, "--protocol", "likelihood")
    assert code and "not replies" in err
    code, out, err = small.command(
        capsys, *run, "--protocol", "vanilla", "--public", "--parameters", "1B"
    )
    assert (code, err) == (
        0,
        "",
    ) and f"{QUESTIONS} predictions sent to Animals: {server.url}/leaderboard" in out
    facts = settled(program, out.rpartition("/")[2].strip())
    assert (facts["state"], facts["is_public"], facts["model"]) == ("scored", True, "mine")
    assert facts["software"] == f"Snellen {sn.__version__}, vanilla"
    assert facts["numbers"][0]["low"] <= 1.0 <= facts["numbers"][0]["high"]
    code, _, err = small.command(
        capsys, "publish", "runs/r", "--to", server.url, "--protocol", "vanilla"
    )
    assert code and "choose the leaderboard" in err  # two have these benchmarks
    code, _, err = small.command(
        capsys, "publish", "runs/r", "--to", "http://example.org", "--protocol", "vanilla"
    )
    assert code and "unencrypted" in err
    monkeypatch.setenv("SNELLEN_TOKEN", "snl_wrong")
    code, _, err = small.command(capsys, *run, "--protocol", "vanilla")
    assert code and "is not valid" in err
    monkeypatch.delenv("SNELLEN_TOKEN")
    code, _, err = small.command(capsys, *run, "--protocol", "vanilla")
    assert code and "SNELLEN_TOKEN" in err


def test_a_run_is_published_to_a_board_as_far_as_the_board_asks_and_only_whole(
    server: RunningServer,
    animals: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    program = server.with_key("Hanna", "submit")
    monkeypatch.setenv(
        "SNELLEN_TOKEN", program.http.headers["authorization"].removeprefix("Bearer ")
    )
    other = small.built(small.rows(4), tmp_path / "other", name="plants")
    sn.evaluate(
        "snellen:always-a", [str(animals.folder), str(other.folder)], "vanilla", name="more"
    )
    sn.evaluate("snellen:always-a", str(animals.folder), "vanilla", limit=3, name="less")
    sn.evaluate("snellen:always-a", str(animals.folder), "circular", name="turned")

    def publish(name: str) -> tuple[int, str, str]:
        return small.command(
            capsys, "publish", f"runs/{name}", "--to", server.url, "--board", "animals"
        )

    code, out, err = publish("more")
    assert (code, err) == (0, "") and f"{QUESTIONS} predictions sent" in out
    assert settled(program, out.rpartition("/")[2].strip())["state"] == "scored"
    code, _, err = publish("less")
    assert code and f"requires all {QUESTIONS} questions of animals, but this run contains 3" in err
    code, _, err = publish("turned")
    assert code and "under circular this run has 2; run it with -p 'vanilla'" in err


def test_the_document_says_what_the_addresses_do(server: RunningServer) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="waits for schemathesis")
    document = server.visitor().get("/openapi.json").json()
    headers = {"authorization": server.with_key("Schema", "submit").http.headers["authorization"]}
    operations = [
        found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()
    ]
    own = [one for one in operations if one.definition.raw.get("tags") == ["leaderboard"]]
    assert len(own) == 7
    # A key is taken everywhere but needed only in places; not every name is a board's, nor every file predictions.
    excluded = schemathesis.checks.CHECKS.get_by_names(["ignored_auth", "positive_data_acceptance"])
    for operation in own:

        @settings(max_examples=2, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            if "board" in (case.path_parameters or {}):
                case.path_parameters["board"] = "animals"
            answer = case.call(base_url=server.url, headers=headers)
            case.validate_response(answer, excluded_checks=excluded)

        check()
