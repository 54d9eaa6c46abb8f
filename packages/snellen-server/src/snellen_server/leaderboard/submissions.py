"""Submissions to the leaderboard: store, show, withdraw and score them.

They are scored one after the other, each in a process of its own with a time limit. The uploaded
file is deleted when it has been scored.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Integer,
    Row,
    Select,
    String,
    Table,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)

from snellen import DataError, SnellenError, __version__
from snellen_server.hosting.accounts import Account, note
from snellen_server.hosting.database import MissingError
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import METADATA, UtcDateTime, account, utc_now
from snellen_server.leaderboard.boards import (
    Board,
    board_benchmarks,
    build_digests,
    find_board,
    settings_of,
)
from snellen_server.leaderboard.checking import UploadFault, UploadLimits
from snellen_server.leaderboard.ledger import MeasuredBenchmark, SpentError, release
from snellen_server.leaderboard.releasing import Draw, PublishedNumber
from snellen_server.leaderboard.scoring_process import ScoringOutcome, ScoringTask

State = Literal["waiting", "scored", "refused", "failed", "withdrawn"]
MAX_ATTEMPTS = 3
_COLUMNS_BEFORE_SCORING: dict[str, Any] = {
    "attempts": 0,
    "snellen_version": "",
    "builds": {},
    "rows": 0,
    "faults": {},
    "numbers": [],
}
UNCOUNTED_STATES = ("refused", "failed")
"""States in which nothing was revealed about the answers, so that the submission does not count for the day."""


class DeclaredFacts(Struct, frozen=True, omit_defaults=True):
    """What the submitter says about the model. None of it is checked."""

    organisation: str = ""
    parameters: str = ""
    address: str = ""
    remark: str = ""
    software: str = ""
    """The software that made the predictions, as `snellen publish` states it."""


class Submission(Struct, frozen=True, kw_only=True):
    """One submission as it is shown."""

    id: str
    board: str
    account_id: str
    account_name: str
    state: State
    is_public: bool
    model: str
    facts: DeclaredFacts
    file_digest: str
    file_bytes: int
    created: datetime
    finished: datetime | None
    snellen_version: str
    builds: dict[str, tuple[str, str]]
    """Benchmark -> digests of its questions, and (signed) of its answers."""
    rows: int
    faults: tuple[UploadFault, ...]
    notes: tuple[UploadFault, ...] = ()
    """What the submitter should know about how the file was read."""
    refusal: str
    numbers: tuple[PublishedNumber, ...]

    def number(self, benchmark: str) -> PublishedNumber | None:
        """Return the published main result on all questions of a benchmark; None if the submission has none."""
        for number in self.numbers:
            if number.benchmark == benchmark and not number.slice:
                return number
        return None


class NewSubmission(Struct, frozen=True, kw_only=True):
    """What is known about a submission when its file has arrived."""

    model: str
    facts: DeclaredFacts
    is_public: bool
    suffix: str
    file_digest: str
    file_bytes: int


def add_submission(
    connection: Connection, of: Account, board: Board, new: NewSubmission, submission_id: str
) -> None:
    """Store an upload as a submission that waits to be scored.

    Raises DataError if the account has already made `board.a_day` submissions to the board in the last 24 hours, not
    counting those in one of the `UNCOUNTED_STATES`.
    """
    # The row is locked, so that two requests of one account at the same time are handled one after the other.
    connection.execute(select(account.c.id).where(account.c.id == of.id).with_for_update())
    submissions_of_the_day = (
        select(func.count())
        .select_from(submission)
        .where(
            submission.c.account_id == of.id,
            submission.c.board == board.name,
            submission.c.created > utc_now() - timedelta(days=1),
            submission.c.state.not_in(UNCOUNTED_STATES),
        )
    )
    if connection.execute(submissions_of_the_day).scalar_one() >= board.a_day:
        raise DataError(
            f"{board.a_day} submissions to {board.heading} are scored within 24 hours, and this account has had them; "
            "submit again tomorrow"
        )
    connection.execute(
        insert(submission).values(
            **_COLUMNS_BEFORE_SCORING,
            **msgspec.to_builtins(new),
            id=submission_id,
            board=board.name,
            account_id=of.id,
            state="waiting",
            created=utc_now(),
        )
    )
    note(connection, of.actor, "submitted", submission_id, board=board.name)


def take_next(connection: Connection) -> Row[Any] | None:
    """Return the submission that has waited longest, and count an attempt to score it.

    None is returned if none waits. Waiting submissions that have had `MAX_ATTEMPTS` attempts are
    marked as failed first.
    """
    is_waiting = submission.c.state == "waiting"
    has_no_attempt_left = submission.c.attempts >= MAX_ATTEMPTS
    failure = update(submission).where(is_waiting, has_no_attempt_left)
    connection.execute(failure.values(state="failed", finished=utc_now()))
    query = select(submission).where(is_waiting).order_by(submission.c.created).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    attempt = update(submission).where(submission.c.id == row.id)
    connection.execute(attempt.values(attempts=row.attempts + 1))
    return row


def return_attempt(connection: Connection, submission_id: str) -> None:
    """Subtract one from a submission's attempts, because the server stopped during the last one."""
    statement = update(submission).where(submission.c.id == submission_id)
    connection.execute(statement.values(attempts=submission.c.attempts - 1))


def finish(
    connection: Connection, submission_id: str, state: State, values: Mapping[str, Any]
) -> None:
    """Store the outcome of a submission, unless it was withdrawn meanwhile.

    Args:
        connection: The transaction to write in.
        submission_id: The submission.
        state: Its new state.
        values: Values of further columns.
    """
    is_waiting = and_(submission.c.id == submission_id, submission.c.state == "waiting")
    statement = update(submission).where(is_waiting)
    connection.execute(statement.values(state=state, finished=utc_now(), **values))


def waiting_ids(connection: Connection) -> set[str]:
    """Return the ids of submissions that wait to be scored."""
    return set(
        connection.execute(select(submission.c.id).where(submission.c.state == "waiting")).scalars()
    )


# --- who sees what -----------------------------------------------------------------------------------------------


def _visible_submissions(viewer: Account | None) -> Select[Any]:
    """Return the query for the submissions that a viewer may see: scored public ones, and all of their own.

    Every page reads submissions through this query. A visitor without an account (None) sees public ones only.
    """
    is_visible = and_(submission.c.is_public, submission.c.state == "scored")
    if viewer:
        is_visible = or_(is_visible, submission.c.account_id == viewer.id)
    return (
        select(submission, account.c.name.label("account_name"))
        .join(account, account.c.id == submission.c.account_id)
        .where(submission.c.state != "withdrawn", is_visible)
    )


def list_submissions(
    connection: Connection, board: str, viewer: Account | None
) -> list[Submission]:
    """Return the submissions to a board that the viewer may see, the latest first."""
    visible = _visible_submissions(viewer).where(submission.c.board == board)
    rows = connection.execute(visible.order_by(submission.c.created.desc()))
    return [_submission_of_row(row) for row in rows]


def find_submission(
    connection: Connection, submission_id: str, viewer: Account | None
) -> Submission:
    """Return a submission that the viewer may see.

    Raises MissingError both if there is none and if the viewer may not see it, so that the error
    does not reveal which.
    """
    row = connection.execute(
        _visible_submissions(viewer).where(submission.c.id == submission_id)
    ).one_or_none()
    if row is None:
        raise MissingError("there is no entry with this name")
    return _submission_of_row(row)


def set_public(connection: Connection, of: Account, submission_id: str, *, is_public: bool) -> None:
    """Make a submission of this account visible to everybody, or to the account alone.

    Raises MissingError if the account has no such submission.
    """
    is_own, _ = _own_submission(connection, of, submission_id)
    connection.execute(update(submission).where(is_own).values(is_public=is_public))
    note(
        connection,
        of.actor,
        "submission shown" if is_public else "submission hidden",
        submission_id,
    )


def withdraw(connection: Connection, of: Account, submission_id: str) -> None:
    """Withdraw a submission of an account.

    A scored or waiting one is no longer shown, but still counts towards the limit of submissions
    per day. A refused or failed one never counted and is deleted.

    Raises:
        MissingError: If the account has no such submission.
    """
    is_own, state = _own_submission(connection, of, submission_id)
    if state in UNCOUNTED_STATES:
        # Such a submission has revealed nothing about the answers and did not count before.
        connection.execute(submission.delete().where(is_own))
    else:
        emptied: dict[str, Any] = {"model": "", "facts": {}, "numbers": [], "faults": {}}
        statement = update(submission).where(is_own)
        connection.execute(statement.values(state="withdrawn", is_public=False, **emptied))
    note(connection, of.actor, "submission withdrawn", submission_id)


def _own_submission(
    connection: Connection, of: Account, submission_id: str
) -> tuple[ColumnElement[bool], State]:
    """Return the SQL condition for a submission of this account, and the submission's state.

    Raises MissingError if the account has no such submission, or has withdrawn it.
    """
    is_own = and_(
        submission.c.id == submission_id,
        submission.c.account_id == of.id,
        submission.c.state != "withdrawn",
    )
    state = connection.execute(select(submission.c.state).where(is_own)).scalar()
    if state is None:
        raise MissingError("this account has no such submission")
    return is_own, state


def _submission_of_row(row: Row[Any]) -> Submission:
    """Convert a database row to a submission.

    The column `faults` contains what `outcome_faults` made of the refusal, the faults of rows and the notes.
    """
    values = {str(name): value for name, value in row._mapping.items()}
    for unshown_column in ("suffix", "attempts"):
        values.pop(unshown_column)
    stored_faults = values["faults"] or {}
    values["faults"] = stored_faults.get("rows", ())
    values["notes"] = stored_faults.get("notes", ())
    values["refusal"] = stored_faults.get("refusal", "")
    return msgspec.convert(values, Submission)


def outcome_faults(
    refusal: str, faults: Sequence[UploadFault] = (), notes: Sequence[UploadFault] = ()
) -> dict[str, Any]:
    """Return what is stored about the faults of an upload; an empty dict if there are none.

    Args:
        refusal: Why the upload was refused, or "".
        faults: What is wrong with its rows.
        notes: What else its submitter should know.
    """
    parts = {
        "refusal": refusal,
        "rows": msgspec.to_builtins(faults),
        "notes": msgspec.to_builtins(notes),
    }
    return {name: part for name, part in parts.items() if part}


# --- the table of submissions ----------------------------------------------------------------------------------------


submission = Table(
    "submission",
    METADATA,
    Column("id", String(24), primary_key=True),
    Column("board", String(64), nullable=False, index=True),
    Column("account_id", ForeignKey("account.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("state", String(16), nullable=False, index=True),
    Column("is_public", Boolean, nullable=False),
    Column("model", String(100), nullable=False),
    Column("facts", JSON, nullable=False),
    Column("suffix", String(16), nullable=False),
    Column("file_digest", String(64), nullable=False),
    Column("file_bytes", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created", UtcDateTime(), nullable=False),
    Column("finished", UtcDateTime(), nullable=True),
    Column("snellen_version", String(40), nullable=False),
    Column("builds", JSON, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("faults", JSON, nullable=False),
    Column("numbers", JSON, nullable=False),
)


FOLDER = "submissions"
FILE_STEM = "predictions"
SCORE_SUBMISSIONS = "score submissions"
MIN_LEFTOVER_SECONDS = 3600
_INTERNAL_ERROR = "it could not be scored because of an internal error; it does not count, and the server's log states the reason"


def submission_folder(services: Services, submission_id: str) -> Path:
    return services.configuration.folder / FOLDER / submission_id


def keep_upload(services: Services, submission_id: str, suffix: str, content: bytes) -> None:
    """Store an uploaded file until it is scored."""
    folder = submission_folder(services, submission_id)
    folder.mkdir(parents=True, mode=0o700)
    (folder / f"{FILE_STEM}{suffix}").write_bytes(content)


def delete_upload(services: Services, submission_id: str) -> None:
    """Delete the folder of a submission with the uploaded file, if it still exists."""
    shutil.rmtree(submission_folder(services, submission_id), ignore_errors=True)


async def score_waiting(services: Services) -> None:
    """Score all waiting submissions, one after the other, until the server stops.

    Each uploaded file is deleted afterwards.
    """
    while not services.stopping.is_set():
        row = await services.database.write(take_next)
        if row is None or not await _score_and_store(services, row):
            break
    await _delete_leftovers(services)


async def _score_and_store(services: Services, row: Any) -> bool:
    """Score a submission and store the result. Return False if the server stopped before that."""
    scored = await _score(services, row)
    if scored is None:
        await services.database.write(return_attempt, row.id)
        return False
    state, values = scored
    await services.database.write(finish, row.id, state, values)
    await asyncio.to_thread(delete_upload, services, row.id)
    services.metrics["snellen_submissions"].labels(state).inc()
    return True


async def _score(services: Services, row: Any) -> tuple[State, Mapping[str, Any]] | None:
    """Score the uploaded file of a submission.

    Args:
        services: The server.
        row: The submission's row in the database.

    Returns:
        The submission's new state and further columns to store: "scored" with its numbers; "refused" with what is wrong
        with the file; or "failed" if the file cannot be scored through no fault of the submitter. None if the server is
        about to stop.
    """
    board = find_board(services, row.board)
    folder = submission_folder(services, row.id)
    if board is None or not (folder / f"{FILE_STEM}{row.suffix}").is_file():
        return "failed", {"faults": outcome_faults("its board or its file no longer exists")}
    try:
        task = await asyncio.to_thread(_scoring_task, services, board, folder, row.suffix)
    except SnellenError:
        LOGGER.exception("board cannot score", extra={"facts": {"board": board.name}})
        return "failed", {"faults": outcome_faults(_INTERNAL_ERROR)}
    shutil.rmtree(folder / "runs", ignore_errors=True)
    outcome = await _run_scoring_process(services, task)
    if isinstance(outcome, str):
        return "failed", {"faults": outcome_faults(outcome)}
    if outcome is None:
        return None
    if outcome.refused:
        faults = outcome_faults(outcome.refused, outcome.faults, outcome.notes)
        return "refused", {"faults": faults, "rows": outcome.rows}
    measured = await asyncio.to_thread(_measured_benchmarks, services, board, outcome)
    draws = {
        benchmark.benchmark: _noise_source(services, board, benchmark.content)
        for benchmark in measured
    }
    try:
        numbers = await services.database.write(release, board, row.account_id, measured, draws)
    except SpentError as error:
        return "refused", {"faults": outcome_faults(str(error)), "rows": outcome.rows}
    return "scored", {
        "rows": outcome.rows,
        "faults": outcome_faults("", notes=outcome.notes),
        "numbers": msgspec.to_builtins(numbers),
        "builds": {
            benchmark.name: build_digests(services, benchmark)
            for benchmark in board_benchmarks(board)
        },
        "snellen_version": __version__,
    }


def _scoring_task(services: Services, board: Board, folder: Path, suffix: str) -> ScoringTask:
    """Return the task of the scoring process: the upload in a folder, the board's benchmarks, and the limits."""
    settings = settings_of(services)
    return ScoringTask(
        folder=str(folder.resolve()),
        file=f"{FILE_STEM}{suffix}",
        benchmarks=tuple(str(benchmark.folder.resolve()) for benchmark in board_benchmarks(board)),
        presentations=board.presentations,
        breakdown=board.breakdown,
        smallest_group=board.smallest_group,
        limits=UploadLimits(settings.rows, settings.unpacked_bytes),
        memory_bytes=settings.memory_bytes,
    )


async def _run_scoring_process(
    services: Services, task: ScoringTask
) -> ScoringOutcome | str | None:
    """Run the scoring process on a task.

    Returns:
        The outcome; or a message for the submitter if the process failed, or took longer than the settings allow; or
        None if the server is about to stop.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "snellen_server.leaderboard.scoring_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    communication = asyncio.create_task(process.communicate(msgspec.json.encode(task)))
    stop = asyncio.create_task(services.stopping.wait())
    try:
        await asyncio.wait(
            (communication, stop),
            timeout=settings_of(services).seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not communication.done():
            return None if stop.done() else "scoring took longer than the limit"
        output, complaints = communication.result()
    finally:
        stop.cancel()
        if process.returncode is None:
            process.kill()
            await communication
    if process.returncode == 0:
        return msgspec.json.decode(output, type=ScoringOutcome)
    LOGGER.error(
        "scoring failed",
        extra={"facts": {"code": process.returncode, "said": complaints[-2000:].decode()}},
    )
    return _INTERNAL_ERROR


def _measured_benchmarks(
    services: Services, board: Board, outcome: ScoringOutcome
) -> list[MeasuredBenchmark]:
    """Return what scoring gave for each benchmark of a board, with the digests of its questions and its build."""
    measured = []
    for benchmark in board_benchmarks(board):
        name = benchmark.name
        questions, build = build_digests(services, benchmark)
        measured.append(
            MeasuredBenchmark(
                benchmark=name,
                questions=questions,
                build=build,
                content=outcome.contents[name],
                readings=outcome.readings.get(name, b""),
                numbers=tuple(number for number in outcome.numbers if number.benchmark == name),
            )
        )
    return measured


def _noise_source(services: Services, board: Board, content: str) -> Callable[[float], Draw]:
    """Return the source of the random numbers from which a benchmark's noise is computed.

    They are digests under the server's key, so the same predictions always get the same noise.

    Args:
        services: The server.
        board: The board.
        content: Digest of what the metric sees of the predictions.

    Returns:
        A function that takes the size of the noise and returns a `Draw`.
    """

    def draw_for(noise: float) -> Draw:
        """Return the source of random numbers for noise of this size."""
        # The same draw with two sizes of noise would reveal the exact result. So each board and size has its own draws.
        source = f"{board.name}\0{noise}\0{content}"

        def draw(purpose: str) -> float:
            """Return a number between 0 and 1 that only the server can compute, made from 12 hexadecimal digits."""
            signature = services.signer.signature("leaderboard draw", f"{source}\0{purpose}")
            first_digits = hashlib.sha256(signature.encode()).hexdigest()[:12]
            return (int(first_digits, 16) + 0.5) / 16**12

        return draw

    return draw_for


async def _delete_leftovers(services: Services) -> None:
    """Delete the files of submissions that no longer wait.

    Folders younger than `MIN_LEFTOVER_SECONDS` remain, because a new submission is stored before it is recorded.
    """
    root = services.configuration.folder / FOLDER
    if not root.is_dir():
        return
    before = time.time() - MIN_LEFTOVER_SECONDS
    folders = [path for path in root.iterdir() if path.stat().st_mtime < before]
    if not folders:
        return
    waiting = await services.database.read(waiting_ids)
    for folder in folders:
        if folder.name not in waiting:
            await asyncio.to_thread(delete_upload, services, folder.name)
