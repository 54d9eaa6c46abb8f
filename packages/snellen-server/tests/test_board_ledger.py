"""The ledger of a board: what its numbers tell of hidden answers, and the attacks on them, which fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, text

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from hosting import hosted
from leaderboard_parts import (
    as_jsonl,
    board,
    gold,
    hidden_benchmark,
    other,
    predictions,
    scored,
)
from snellen_server.hosting.accounts import erase_person, find_account
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.database import Database, migrate
from snellen_server.hosting.features import migration_packages
from snellen_server.leaderboard.boards import Board
from snellen_server.leaderboard.ledger import (
    MeasuredBenchmark,
    SpentError,
    affordable_noise,
    cost_of,
    leaderboard_release,
    privacy_loss,
    release,
)
from snellen_server.leaderboard.rotation import rotate_boards
from snellen_server.leaderboard.scoring_process import ExactNumber

QUESTIONS, OPTIONS = 200, 4
DEFAULT = Board(name="b", benchmarks=("x",))
OPEN_DOOR = Board(
    name="b", benchmarks=("x",), noise_answers=2.0, budget=1e9, account_share=1.0, alike=0.0
)
"""A board as it was: noise of two answers, and no ledger."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(Configuration(folder=tmp_path).url)
    migrate(opened, migration_packages())
    yield opened
    opened.close()


def measured(
    choices: np.ndarray, answers: np.ndarray, content: str | None = None, questions: str = "q"
) -> MeasuredBenchmark:
    right = float((choices == answers).mean())
    exact = ExactNumber(
        benchmark="x",
        metric="accuracy",
        slice="",
        value=right,
        n=len(answers),
        units=len(answers),
        least=0.0,
        greatest=1.0,
        unit="share",
        better="higher",
    )
    return MeasuredBenchmark(
        benchmark="x",
        questions=questions,
        build="1",
        content=choices.tobytes().hex()[:64] if content is None else content,
        readings=choices.astype("<u4").tobytes(),
        numbers=(exact,),
    )


Publish = Callable[[np.ndarray, str], float | None]


def board_of(database: Database, of: Board, answers: np.ndarray, seed: int) -> Publish:
    """What a board shows for a file of choices, as a count of right answers; None when it refuses."""
    rng = np.random.default_rng(seed)
    numbers = iter(range(10**6))

    def publish(choices: np.ndarray, account: str) -> float | None:
        one = measured(choices, answers, content=str(next(numbers)))
        draws = {"x": lambda noise: lambda purpose: rng.random()}
        try:
            [number] = database.write_now(
                lambda connection: release(connection, of, account, [one], draws)
            )
        except SpentError:
            return None
        return number.value * len(answers)

    return publish


def recovered_share(answers: np.ndarray, publish: Publish, files: int) -> float:
    """The share of hidden answers that so many files of random choices give away, each by another account.

    Ridge regression of the numbers on which option each file chose: the best linear attack.
    """
    rng = np.random.default_rng(99)
    rows, values = [], []
    for number in range(files):
        choices = rng.integers(0, OPTIONS, QUESTIONS)
        value = publish(choices, f"account-{number}")
        if value is not None:
            rows.append(np.eye(OPTIONS)[choices].ravel() - 1 / OPTIONS)
            values.append(value)
    design = np.array(rows)
    centred = np.array(values) - QUESTIONS / OPTIONS
    kernel = design @ design.T + 8 * np.eye(len(design))
    weights = design.T @ np.linalg.solve(kernel, centred)
    return float((weights.reshape(QUESTIONS, OPTIONS).argmax(axis=1) == answers).mean())


# --- attacks -----------------------------------------------------------------------------------------------------


def test_many_files_of_many_accounts_do_not_reconstruct_the_answers(database: Database) -> None:
    answers = np.random.default_rng(5).integers(0, OPTIONS, QUESTIONS)
    before = recovered_share(answers, board_of(database, OPEN_DOOR, answers, 1), 200)
    assert before > 0.5
    with database.engine.begin() as connection:
        connection.execute(leaderboard_release.delete())
    after = recovered_share(answers, board_of(database, DEFAULT, answers, 1), 400)
    guessing = 1 / OPTIONS
    assert after < guessing + 3 * np.sqrt(guessing * (1 - guessing) / QUESTIONS)
    spent, _ = database.read_now(lambda connection: privacy_loss(connection, "q"))
    assert 0.9 * DEFAULT.budget < spent <= DEFAULT.budget + 1e-6


def test_the_best_of_many_files_that_hardly_differ_is_no_better(database: Database) -> None:
    answers = np.random.default_rng(6).integers(0, OPTIONS, QUESTIONS)
    choices = np.where(np.arange(QUESTIONS) % 5 < 3, answers, (answers + 1) % OPTIONS)

    def spread(of: Board) -> float:
        publish = board_of(database, of, answers, 2)
        shown = []
        for number in range(60):
            changed = choices.copy()
            changed[number] = (changed[number] + 1) % OPTIONS
            shown.append(publish(changed, "one"))
        values = [value for value in shown if value is not None]
        return max(values) - values[0]

    assert spread(OPEN_DOOR) > 4  # answers
    with database.engine.begin() as connection:
        connection.execute(leaderboard_release.delete())
    assert spread(DEFAULT) == 0
    spent, _ = database.read_now(lambda connection: privacy_loss(connection, "q"))
    assert spent == pytest.approx(cost_of(DEFAULT.noise_answers))


# --- the budget --------------------------------------------------------------------------------------------------


def test_answers_become_coarser_and_are_refused_at_the_end() -> None:
    spent = 0.0
    noises = []
    while (noise := affordable_noise(DEFAULT, spent, 0.0, 1)) is not None:
        spent += cost_of(noise)
        noises.append(noise)
    assert sorted(noises) == noises and set(noises) == {10.0, 20.0, 40.0}
    # 0.125 / 0.005 at first, 0.0625 / 0.00125 then, and 0.0625 / 0.0003125.
    assert [noises.count(noise) for noise in (10.0, 20.0, 40.0)] == [25, 50, 200]
    assert spent == pytest.approx(DEFAULT.budget)


def test_numbers_of_parts_count_and_an_account_has_its_share() -> None:
    assert cost_of(10.0, numbers=3) == pytest.approx(3 * cost_of(10.0))
    share = DEFAULT.account_share * DEFAULT.budget
    assert affordable_noise(DEFAULT, 0.0, 0.0, 1) == 10.0
    assert affordable_noise(DEFAULT, 0.0, 0.6 * share, 1) == 20.0
    assert affordable_noise(DEFAULT, 0.0, share, 1) is None


def test_a_budget_is_of_the_questions_on_every_board(database: Database) -> None:
    answers = np.zeros(QUESTIONS, dtype=int)
    first, second = (Board(name=name, benchmarks=("x",)) for name in ("first", "second"))
    draws = {"x": lambda noise: lambda purpose: 0.5}
    for of in (first, second):
        one = measured(answers, answers)
        database.write_now(
            lambda connection, of=of, one=one: release(connection, of, "a", [one], draws)
        )
    spent, by_account = database.read_now(lambda connection: privacy_loss(connection, "q", "a"))
    assert spent == by_account == pytest.approx(2 * cost_of(10.0))
    # An answer that was corrected makes another build, whose numbers are not those of before.
    rebuilt = measured(answers, answers + 1)
    rebuilt = MeasuredBenchmark(**{**rebuilt.__dict__, "build": "2"})
    [number] = database.write_now(
        lambda connection: release(connection, first, "a", [rebuilt], draws)
    )
    assert number.value == 0.0
    assert database.read_now(lambda connection: privacy_loss(connection, "q"))[0] > spent


# --- over HTTP ---------------------------------------------------------------------------------------------------


def test_a_board_says_what_is_spent_refuses_and_shows_again_what_was_shown(tmp_path: Path) -> None:
    animals = hidden_benchmark(tmp_path / "hidden")
    # Room for one number with noise of 2 answers, and none with 4 or 8.
    settings = {"noise_answers": 2.0, "budget": 0.25, "account_share": 1.0, "alike": 0.0}
    boards = [board(animals, **settings, widest_noise=1.0)]
    with hosted(tmp_path / "server", feature={"leaderboard": {"boards": boards}}) as server:
        anna, ben = (server.with_key(name, "submit") for name in ("Anna", "Ben"))
        first = scored(anna, as_jsonl(predictions()))
        assert first["state"] == "scored" and first["numbers"][0]["noise_answers"] == 2.0
        same = scored(ben, as_jsonl(predictions()))
        assert same["numbers"] == first["numbers"]
        [facts] = anna.get("/api/v1/boards").json()
        assert facts["spent"] == pytest.approx(0.125) and facts["budget"] == 0.25
        assert "50% of this is spent" in server.visitor().get("/leaderboard/animals").text
        states, noises = [], []
        for number in range(9):
            rows = predictions(lambda i, number=number: gold(i) if i > number else other(i))
            entry = scored(ben, as_jsonl(rows))
            states.append(entry["state"])
            noises += [one["noise_answers"] for one in entry["numbers"]]
        assert noises == [4.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0][: len(noises)]
        assert states[:3] == ["scored"] * 3
        # A person who is erased takes back nothing of what was told.
        database = server.services.database
        found = database.read_now(lambda connection: find_account(connection, "Anna"))
        assert found is not None
        before = database.read_now(
            lambda c: c.execute(select(func.sum(leaderboard_release.c.cost))).scalar()
        )
        actor = found[0].actor
        database.write_now(lambda connection: erase_person(connection, actor, "test"))
        after = database.read_now(
            lambda c: c.execute(select(func.sum(leaderboard_release.c.cost))).scalar()
        )
        assert after == before


def test_a_spent_budget_is_a_refusal_that_does_not_count(tmp_path: Path) -> None:
    animals = hidden_benchmark(tmp_path / "hidden")
    # Less than one number costs, even with four times the noise.
    boards = [board(animals, noise_answers=2.0, budget=0.005, account_share=1.0, a_day=1)]
    with hosted(tmp_path / "server", feature={"leaderboard": {"boards": boards}}) as server:
        anna = server.with_key("Anna", "submit")
        for _ in range(2):
            entry = scored(anna, as_jsonl(predictions()))
            assert entry["state"] == "refused" and entry["numbers"] == []
            assert "budget of 0.005 nats per answer for life, and it is spent" in entry["refusal"]


def test_fresh_questions_take_over_when_the_budget_is_spent(tmp_path: Path) -> None:
    first = hidden_benchmark(tmp_path / "hidden", "first")
    second = hidden_benchmark(tmp_path / "hidden", "second", count=30)
    # Room for one number with four times the noise, and no more.
    settings = {"noise_answers": 2.0, "budget": cost_of(8.0), "account_share": 1.0}
    boards = [board(first, **settings, widest_noise=1.0, rotation=[[str(second.folder)]])]
    feature = {"leaderboard": {"boards": boards}}
    with hosted(tmp_path / "server", feature=feature) as server:
        anna = server.with_key("Anna", "submit")

        def names_in_use() -> list[str]:
            [facts] = anna.get("/api/v1/boards").json()
            return [benchmark["name"] for benchmark in facts["benchmarks"]]

        assert names_in_use() == ["first"]
        old = scored(anna, as_jsonl(predictions()))
        assert [number["benchmark"] for number in old["numbers"]] == ["first"]
        server.do(rotate_boards(server.services))
        assert names_in_use() == ["second"]
        new = scored(anna, as_jsonl(predictions(count=30)))
        assert [number["benchmark"] for number in new["numbers"]] == ["second"]
        page = server.visitor().get("/leaderboard/animals")
        assert page.status_code == 200

    # Which set is in use follows from the ledger, so a restart goes on with it; the last set stays.
    with hosted(tmp_path / "server", feature=feature) as server:
        anna = server.with_key("Anna", "submit")
        assert names_in_use() == ["second"]
        rows = predictions(lambda i: other(i), count=30)
        assert scored(anna, as_jsonl(rows))["state"] == "refused"


def test_an_empty_set_of_a_rotation_is_refused() -> None:
    with pytest.raises(ValueError, match="needs benchmarks"):
        Board(name="b", benchmarks=("x",), rotation=((),))


def test_what_an_older_database_has_shown_is_charged(tmp_path: Path) -> None:
    database = Database(Configuration(folder=tmp_path).url)
    packages = migration_packages()
    migrate(database, packages, "leaderboard_0001")
    number: dict[str, Any] = {
        "benchmark": "x",
        "slice": "",
        "unit": "share",
        "noise": 0.02,
        "n": 200,
    }
    numbers = json.dumps([number, {**number, "slice": "level=easy"}])
    builds = json.dumps({"x": ["questions", "answers"]})
    with database.engine.begin() as connection:
        connection.execute(
            text("INSERT INTO account VALUES ('a', 'A', 'a', NULL, 0, 0, '2026-01-01')")
        )
        connection.execute(
            text(
                "INSERT INTO submission VALUES ('s', 'b', 'a', 'scored', 1, 'm', '{}', '.jsonl', 'f', 1, 1, "
                "'2026-01-01', '2026-01-01', '1', :builds, 1, '{}', :numbers)"
            ),
            {"builds": builds, "numbers": numbers},
        )
    migrate(database, packages)
    spent, by_account = database.read_now(
        lambda connection: privacy_loss(connection, "questions", "a")
    )
    database.close()
    # Two numbers on an answer, with noise of four answers.
    assert spent == by_account == pytest.approx(2 / (2 * 4.0**2))
