"""Scores what waits, one upload after the other, each in a process of its own with a limit of time."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from snellen import __version__
from snellen.plugin_api import SnellenError
from snellen_server.hosting.logs import LOGGER
from snellen_server.hosting.services import Services
from snellen_server.leaderboard import entries
from snellen_server.leaderboard.boards import Board, board_benchmarks, build_digests, find_board, settings_of
from snellen_server.leaderboard.checking import UploadLimits
from snellen_server.leaderboard.entries import State
from snellen_server.leaderboard.releasing import Draw, release_number
from snellen_server.leaderboard.scoring_process import ScoringOutcome, ScoringTask

FOLDER = "submissions"
FILE = "predictions"
SCORE_SUBMISSIONS = "score submissions"
SETTLED_SECONDS = 3600
_OURS = "it could not be scored, which is not the fault of the file; it does not count, and the operator can see why"


def submission_folder(services: Services, submission_id: str) -> Path:
    return services.configuration.folder / FOLDER / submission_id


def keep_upload(services: Services, submission_id: str, suffix: str, content: bytes) -> None:
    """Write an upload to its place, where it waits."""
    folder = submission_folder(services, submission_id)
    folder.mkdir(parents=True, mode=0o700)
    (folder / f"{FILE}{suffix}").write_bytes(content)


def delete_upload(services: Services, submission_id: str) -> None:
    """Delete what was uploaded, if it is still there."""
    shutil.rmtree(submission_folder(services, submission_id), ignore_errors=True)


async def score_waiting(services: Services) -> None:
    """Score all that waits. Whatever was uploaded is deleted when it has been read."""
    while not services.stopping.is_set():
        row = await services.database.write(entries.take_next)
        if row is None or not await _settle(services, row):
            break
    await _delete_leftovers(services)


async def _settle(services: Services, row: Any) -> bool:
    """Whether a submission was brought to its end, before the server stops."""
    scored = await _score(services, row)
    if scored is None:
        await services.database.write(lambda connection: entries.put_back(connection, row.id))
        return False
    state, values = scored
    await services.database.write(lambda connection: entries.finish(connection, row.id, state, values))
    await asyncio.to_thread(delete_upload, services, row.id)
    services.metrics["snellen_submissions"].labels(state).inc()
    return True


async def _score(services: Services, row: Any) -> tuple[State, Mapping[str, Any]] | None:
    """What came of an upload, and what is kept of it; None when the server is about to stop."""
    board = find_board(services, row.board)
    folder = submission_folder(services, row.id)
    if board is None or not (folder / f"{FILE}{row.suffix}").is_file():
        return "failed", {"faults": entries.outcome_faults("its board or its file is no longer here", ())}
    try:
        task = await asyncio.to_thread(_task, services, board, folder, row.suffix)
    except SnellenError:
        LOGGER.exception("board cannot score", extra={"facts": {"board": board.name}})
        return "failed", {"faults": entries.outcome_faults(_OURS, ())}
    shutil.rmtree(folder / "runs", ignore_errors=True)
    outcome = await _carry_out(services, task)
    if isinstance(outcome, str):
        return "failed", {"faults": entries.outcome_faults(outcome, ())}
    if outcome is None:
        return None
    if outcome.refused:
        faults = entries.outcome_faults(outcome.refused, outcome.faults)
        return "refused", {"faults": faults, "rows": outcome.rows}
    draw = _draw(services, board, outcome.content)
    numbers = [release_number(exact, board.noise_answers, draw) for exact in outcome.numbers]
    builds = {benchmark.name: build_digests(services, benchmark) for benchmark in board_benchmarks(board)}
    return "scored", {
        "rows": outcome.rows,
        "numbers": msgspec.to_builtins(numbers),
        "builds": {name: (build.questions, build.answers) for name, build in builds.items()},
        "snellen_version": __version__,
    }


def _task(services: Services, board: Board, folder: Path, suffix: str) -> ScoringTask:
    settings = settings_of(services)
    return ScoringTask(
        folder=str(folder.resolve()),
        file=f"{FILE}{suffix}",
        benchmarks=tuple(str(benchmark.folder.resolve()) for benchmark in board_benchmarks(board)),
        presentations=board.presentations,
        breakdown=board.breakdown,
        smallest_group=board.smallest_group,
        limits=UploadLimits(settings.rows, settings.unpacked_bytes),
        memory_bytes=settings.memory_bytes,
    )


async def _carry_out(services: Services, task: ScoringTask) -> ScoringOutcome | str | None:
    """The outcome, or why there is none; None when the server is about to stop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "snellen_server.leaderboard.scoring_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    talk = asyncio.create_task(process.communicate(msgspec.json.encode(task)))
    stop = asyncio.create_task(services.stopping.wait())
    try:
        await asyncio.wait((talk, stop), timeout=settings_of(services).seconds, return_when=asyncio.FIRST_COMPLETED)
        if not talk.done():
            return None if stop.done() else "scoring it took longer than a submission may"
        output, complaints = talk.result()
    finally:
        stop.cancel()
        if process.returncode is None:
            process.kill()
            await talk
    if process.returncode == 0:
        return msgspec.json.decode(output, type=ScoringOutcome)
    LOGGER.error("scoring failed", extra={"facts": {"code": process.returncode, "said": complaints[-2000:].decode()}})
    return _OURS


def _draw(services: Services, board: Board, content: str) -> Draw:
    def draw(purpose: str) -> float:
        signed = services.signer.signature("leaderboard draw", f"{board.name}\0{content}\0{purpose}")
        return (int(hashlib.sha256(signed.encode()).hexdigest()[:12], 16) + 0.5) / 16**12

    return draw


async def _delete_leftovers(services: Services) -> None:
    """Files of submissions that no longer wait. One that has just come may not be recorded yet."""
    root = services.configuration.folder / FOLDER
    before = time.time() - SETTLED_SECONDS
    folders = [path for path in root.iterdir() if path.stat().st_mtime < before] if root.is_dir() else []
    waiting = await services.database.read(entries.waiting_ids) if folders else set()
    for folder in folders:
        if folder.name not in waiting:
            await asyncio.to_thread(delete_upload, services, folder.name)
