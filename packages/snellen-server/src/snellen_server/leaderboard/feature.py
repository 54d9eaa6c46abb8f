"""The feature `leaderboard`: its pages, the same for programs below /api/v1, and its declaration."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Depends, Form, HTTPException, Path, Query, Request, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from msgspec.structs import asdict
from pydantic import BaseModel

from snellen import DataError, SnellenError
from snellen.plugin_api import Benchmark
from snellen_server.hosting.accounts import Account
from snellen_server.hosting.callers import CallerDep, Limited, PersonDep, Scope, ServicesDep
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.contributions import Contribution
from snellen_server.hosting.credentials import new_id
from snellen_server.hosting.features import (
    Collector,
    Feature,
    HealthCheck,
    Job,
    NavigationEntry,
    PersonalData,
)
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import Services
from snellen_server.leaderboard.boards import (
    NAME,
    Board,
    LeaderboardSettings,
    board_benchmarks,
    boards_fault,
    build_digests,
    find_board,
    settings_of,
)
from snellen_server.leaderboard.checking import UploadFault, upload_suffix
from snellen_server.leaderboard.ledger import BudgetUse, budget_use, leaderboard_release
from snellen_server.leaderboard.releasing import PublishedNumber
from snellen_server.leaderboard.rotation import open_sets
from snellen_server.leaderboard.standings import (
    OVERALL,
    Order,
    read_standings,
    shown_number,
    summarised_boards,
)
from snellen_server.leaderboard.submissions import (
    SCORE_SUBMISSIONS,
    DeclaredFacts,
    NewSubmission,
    Submission,
    add_submission,
    delete_upload,
    find_submission,
    keep_upload,
    score_waiting,
    set_public,
    submission,
    withdraw,
)

PAGES, API_BOARDS, API_SUBMISSIONS = "/leaderboard", "/api/v1/boards", "/api/v1/submissions"
UPLOADS, SUBMIT = "submissions", "submit"

router = APIRouter()
BoardName = Annotated[str, Path(max_length=64)]
SubmissionId = Annotated[str, Path(max_length=24)]
ModelName = Annotated[str, Form(min_length=1, max_length=100)]
Short = Annotated[str, Form(max_length=200)]
Long = Annotated[str, Form(max_length=2000)]
SubmitDep = Annotated[Account, Depends(Scope(SUBMIT))]


def _declared_facts(
    organisation: Short = "",
    parameters: Short = "",
    address: Short = "",
    remark: Long = "",
    software: Short = "",
) -> DeclaredFacts:
    """Collect what a submitter declares about a model from the fields of a form."""
    return DeclaredFacts(organisation, parameters, address, remark, software)


FactsDep = Annotated[DeclaredFacts, Depends(_declared_facts)]


# --- what programs get ---------------------------------------------------------------------------------------------


class BoardBenchmarkFacts(BaseModel):
    """A benchmark of a board."""

    name: str
    title: str
    samples: int
    n_questions: int
    """A sample may have several."""
    questions: str
    """Begins the digest of its questions, by which a build without answers is known to be the same."""


class BoardFacts(BaseModel):
    """What the API says about a board."""

    name: str
    title: str
    about: str
    address: str
    presentations: int
    submissions_a_day: int
    questions_needed: int
    """The fewest questions that are ranked: of fewer, the noise widens every interval too much."""
    noise_answers: float
    """Scale of the noise in a number, in answers, while less than half of the budget is spent."""
    budget: float
    """Nats that all numbers together may tell about any one answer."""
    spent: float
    """Nats that they have told."""
    benchmarks: list[BoardBenchmarkFacts]


class BoardSample(BaseModel):
    """A sample for which a submission must contain a prediction."""

    benchmark: str
    id: str
    rounds: int


class EntryFacts(BaseModel):
    """What the API says about a submission. Those of other accounts are shown if public and scored."""

    id: str
    address: str
    board: str
    submitted_by: str
    state: Literal["waiting", "scored", "refused", "failed"]
    is_public: bool
    model: str
    organisation: str
    parameters: str
    model_address: str
    remark: str
    software: str
    file_digest: str
    rows: int
    created: str
    finished: str | None
    snellen_version: str
    builds: dict[str, list[str]]
    refusal: str
    faults: list[UploadFault]
    notes: list[UploadFault]
    numbers: list[PublishedNumber]


class StandingFacts(BaseModel):
    """A submission with the best and the worst rank that its interval allows; null without a rank."""

    best_rank: int | None
    worst_rank: int | None
    note: str
    entry: EntryFacts


class Visibility(BaseModel):
    """Whether everybody may see a submission, or only the account that sent it."""

    is_public: bool


async def _board_facts(services: Services, board: Board) -> BoardFacts:
    """Return what the API says about a board, including how much of its budget is spent."""
    digests = []
    benchmarks = []
    for benchmark in board_benchmarks(board):
        digests.append(build_digests(services, benchmark)[0])
        facts = BoardBenchmarkFacts(
            name=benchmark.name,
            title=benchmark.spec.title,
            samples=benchmark.manifest.counts.samples,
            n_questions=benchmark.manifest.counts.questions,
            questions=benchmark.manifest.questions[:12],
        )
        benchmarks.append(facts)
    use: BudgetUse = await services.database.read(budget_use, board, digests)
    return BoardFacts(
        name=board.name,
        title=board.heading,
        about=board.about,
        address=f"{PAGES}/{board.name}",
        presentations=board.presentations,
        submissions_a_day=board.a_day,
        questions_needed=board.questions_needed,
        noise_answers=board.noise_answers,
        budget=board.budget,
        spent=use.spent,
        benchmarks=benchmarks,
    )


def _entry_facts(entry: Submission) -> EntryFacts:
    """Return what the API says about a submission."""
    declared = asdict(entry.facts)
    return EntryFacts.model_validate(
        {
            **asdict(entry),
            **declared,
            "model_address": declared["address"],
            "address": _entry_address(entry),
            "submitted_by": entry.account_name,
            "state": "failed" if entry.state == "withdrawn" else entry.state,
            "created": entry.created.isoformat(timespec="seconds"),
            "finished": entry.finished.isoformat(timespec="seconds") if entry.finished else None,
        }
    )


def _entry_address(entry: Submission) -> str:
    return f"{PAGES}/{entry.board}/entries/{entry.id}"


# --- for programs ------------------------------------------------------------------------------------------------


@router.get(API_BOARDS, tags=["leaderboard"])
async def show_boards(services: ServicesDep) -> list[BoardFacts]:
    """Return all boards, with their benchmarks and how much of their budget is spent."""
    boards = [_checked_board(board) for board in settings_of(services).boards]
    return [await _board_facts(services, board) for board in boards]


@router.get(f"{API_BOARDS}/{{board}}/samples", tags=["leaderboard"])
async def show_board_samples(board: BoardName, services: ServicesDep) -> list[BoardSample]:
    """Return the samples of a board, for each of which a submission must contain a prediction."""
    benchmarks = board_benchmarks(_board(services, board))

    def read_samples() -> list[BoardSample]:
        """Return the samples of all benchmarks of the board."""
        samples = []
        for benchmark in benchmarks:
            for sample in benchmark.samples():
                rounds = len(sample.rounds)
                samples.append(BoardSample(benchmark=benchmark.name, id=sample.id, rounds=rounds))
        return samples

    return await asyncio.to_thread(read_samples)


@router.get(f"{API_BOARDS}/{{board}}/entries", tags=["leaderboard"])
async def show_standings(
    board: BoardName,
    services: ServicesDep,
    caller: CallerDep,
    benchmark: Annotated[str, Query(max_length=200)] = "",
    order: Order = "rank",
) -> list[StandingFacts]:
    """Return the scored submissions that the caller may see, with their ranks.

    They are ranked by `benchmark`, or if that is empty by the mean over all benchmarks of the
    board.
    """
    chosen_board = _board(services, board)
    names = [member.name for member in board_benchmarks(chosen_board)]
    if benchmark and benchmark not in names:
        raise DataError(f"this board has no benchmark with this name; it has {', '.join(names)}")
    board_standings, _ = await read_standings(
        services, chosen_board, caller.account, benchmark, order
    )
    return [
        StandingFacts(
            best_rank=standing.best or None,
            worst_rank=standing.worst or None,
            note=standing.note,
            entry=_entry_facts(standing.entry),
        )
        for standing in board_standings
    ]


@router.post(
    f"{API_BOARDS}/{{board}}/submissions",
    status_code=201,
    tags=["leaderboard"],
    dependencies=[Depends(Limited(UPLOADS))],
)
async def send_submission(
    board: BoardName,
    file: UploadFile,
    model: ModelName,
    account: SubmitDep,
    services: ServicesDep,
    facts: FactsDep,
    is_public: Annotated[bool, Form()] = False,
) -> EntryFacts:
    """Upload a file of predictions (.jsonl, .parquet, .xlsx) with the columns id and prediction.

    It is scored in the background.
    """
    chosen_board = _board(services, board)
    entry = await _receive_upload(services, account, chosen_board, file, model, facts, is_public)
    return _entry_facts(entry)


@router.get(f"{API_SUBMISSIONS}/{{submission_id}}", tags=["leaderboard"])
async def show_submission(
    submission_id: SubmissionId, services: ServicesDep, caller: CallerDep
) -> EntryFacts:
    """Return a submission of the caller, or a public entry."""
    entry = await services.database.read(find_submission, submission_id, caller.account)
    return _entry_facts(entry)


@router.patch(f"{API_SUBMISSIONS}/{{submission_id}}", tags=["leaderboard"])
async def change_submission(
    submission_id: SubmissionId, visibility: Visibility, account: SubmitDep, services: ServicesDep
) -> EntryFacts:
    """Make a submission of the caller public, or visible to the caller alone."""
    await services.database.write(
        set_public, account, submission_id, is_public=visibility.is_public
    )
    entry = await services.database.read(find_submission, submission_id, account)
    return _entry_facts(entry)


@router.delete(f"{API_SUBMISSIONS}/{{submission_id}}", status_code=204, tags=["leaderboard"])
async def delete_submission(
    submission_id: SubmissionId, account: SubmitDep, services: ServicesDep
) -> Response:
    """Withdraw a submission of the caller. It still counts towards the limit of submissions per day."""
    await _withdraw(services, account, submission_id)
    return Response(status_code=204)


# --- pages -------------------------------------------------------------------------------------------------------


@router.get(PAGES, include_in_schema=False)
async def boards_page(request: Request, services: ServicesDep) -> Response:
    """Show all boards, each with its best entries."""
    return services.pages.render(
        request, "leaderboard/boards.html", await summarised_boards(services)
    )


@router.get(f"{PAGES}/{{board}}", include_in_schema=False)
async def board_page(
    board: BoardName,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    benchmark: str = "",
    order: str = "",
) -> HTMLResponse:
    """Show the standings of a board, ordered by one benchmark or overall.

    An unknown `benchmark` or `order` is ignored. A person also sees their own submissions.
    """
    chosen_board = _board(services, board)
    chosen_order = cast(Order, order) if order in get_args(Order) else "rank"
    benchmark_names = [member.name for member in board_benchmarks(chosen_board)]
    chosen_benchmark = benchmark if benchmark in benchmark_names else ""
    board_standings, submissions = await read_standings(
        services, chosen_board, caller.account, chosen_benchmark, chosen_order
    )
    facts = await _board_facts(services, chosen_board)

    columns = [chosen_benchmark]
    shown_benchmarks = facts.benchmarks
    if chosen_benchmark:
        shown_benchmarks = [
            member for member in facts.benchmarks if member.name == chosen_benchmark
        ]
    else:
        columns = list(benchmark_names)
        if len(benchmark_names) > 1:
            columns.append(OVERALL)
    too_small = []
    for benchmark_facts in shown_benchmarks:
        if benchmark_facts.n_questions < chosen_board.questions_needed:
            too_small.append(benchmark_facts)
    own_submissions = []
    if caller.account:
        for entry in submissions:
            if entry.account_id == caller.account.id:
                own_submissions.append(entry)
    values = {
        "board": chosen_board,
        "facts": facts,
        "standings": board_standings,
        "too_small": too_small,
        "columns": columns,
        "benchmark": chosen_benchmark,
        "order": chosen_order,
        "own": own_submissions,
    }
    return services.pages.render(request, "leaderboard/board.html", values)


@router.get(f"{PAGES}/{{board}}/template.jsonl", include_in_schema=False)
async def upload_template(board: BoardName, services: ServicesDep) -> Response:
    """Return a file with a line for each question of a board, to which predictions can be added."""
    benchmarks = board_benchmarks(_board(services, board))
    headers = {"content-disposition": f'attachment; filename="{board}.jsonl"'}
    return StreamingResponse(
        _template_lines(benchmarks), media_type="application/jsonl", headers=headers
    )


@router.get(f"{PAGES}/{{board}}/submit", include_in_schema=False)
async def submission_page(
    board: BoardName, request: Request, account: PersonDep, services: ServicesDep
) -> HTMLResponse:
    """Show the form to submit predictions."""
    return await _submission_page(request, services, _board(services, board))


@router.post(
    f"{PAGES}/{{board}}/submit", include_in_schema=False, dependencies=[Depends(Limited(UPLOADS))]
)
async def submit_predictions(
    board: BoardName,
    request: Request,
    file: UploadFile,
    model: ModelName,
    account: PersonDep,
    services: ServicesDep,
    facts: FactsDep,
    is_public: Annotated[bool, Form()] = False,
) -> Response:
    """Accept an upload of predictions from the form.

    If it has a fault, the form is shown again with the values and the reason (status 422).
    """
    chosen_board = _board(services, board)
    try:
        entry = await _receive_upload(
            services, account, chosen_board, file, model, facts, is_public
        )
    except DataError as error:
        form_values = {"model": model, **asdict(facts), "is_public": is_public}
        return await _submission_page(request, services, chosen_board, form_values, str(error), 422)
    return RedirectResponse(_entry_address(entry), 303)


@router.get(f"{PAGES}/{{board}}/entries/{{submission_id}}", include_in_schema=False)
async def entry_page(
    board: BoardName,
    submission_id: SubmissionId,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
) -> HTMLResponse:
    """Show one submission; 404 if it belongs to another board."""
    entry = await services.database.read(find_submission, submission_id, caller.account)
    if entry.board != board:
        raise HTTPException(404, "there is no entry with this name")
    values = {
        "entry": entry,
        "board": _board(services, board),
        "is_own": caller.account is not None and caller.account.id == entry.account_id,
    }
    return services.pages.render(request, "leaderboard/entry.html", values)


@router.post(f"{PAGES}/{{board}}/entries/{{submission_id}}/{{action}}", include_in_schema=False)
async def change_entry(
    board: BoardName,
    submission_id: SubmissionId,
    action: str,
    account: PersonDep,
    services: ServicesDep,
) -> Response:
    """Withdraw, show or hide one's own submission."""
    if action == "withdraw":
        await _withdraw(services, account, submission_id)
        return RedirectResponse(f"{PAGES}/{_board(services, board).name}", 303)
    if action not in ("show", "hide"):
        raise HTTPException(404, "there is no such action")
    await services.database.write(set_public, account, submission_id, is_public=action == "show")
    return RedirectResponse(f"{PAGES}/{_board(services, board).name}/entries/{submission_id}", 303)


# --- parts -------------------------------------------------------------------------------------------------------


def _board(services: Services, name: str) -> Board:
    """Return a board by name; 404 if there is none."""
    board = find_board(services, name)
    if board is None:
        raise HTTPException(404, "there is no board with this name")
    return _checked_board(board)


def _checked_board(board: Board) -> Board:
    """Return the board unchanged, after checking that its benchmarks can be opened.

    Raises:
        HTTPException: 503 if they cannot. The reason is only logged, because it is for the operator of the server.
    """
    try:
        board_benchmarks(board)
    except SnellenError:
        LOGGER.exception("board cannot be opened", extra={"facts": {"board": board.name}})
        raise HTTPException(
            503, "this board is not ready; the server's log states the reason"
        ) from None
    return board


async def _receive_upload(
    services: Services,
    account: Account,
    board: Board,
    file: UploadFile,
    model: str,
    facts: DeclaredFacts,
    is_public: bool,
) -> Submission:
    """Store an upload of predictions as a submission, and start scoring it in the background.

    Args:
        services: The services of the server.
        account: The account that submits.
        board: The board to submit to.
        file: The upload.
        model: The name of the model.
        facts: What the form says about the model, such as its size.
        is_public: Whether the entry becomes public when it is scored.

    Raises:
        DataError: The name, the address or the file is not valid, or the account has no submissions left.
        HTTPException: 403 if moderation rejects a text of the form.
    """
    if not model.strip():
        raise DataError("the model has no name; give one")
    if facts.address and urlsplit(facts.address).scheme not in ("http", "https"):
        raise DataError("the model's address must begin with https:// or be empty")
    content = await file.read()
    suffix = upload_suffix(file.filename or "", content[:16])
    form_texts = [text for text in (model, *asdict(facts).values()) if text]
    contribution = Contribution("text", text="\n".join(form_texts), purpose="leaderboard entry")
    verdict = await services.moderation.judge(contribution)
    if not verdict.is_allowed:
        raise HTTPException(403, f"this was rejected: {verdict.reason}")
    new_submission = NewSubmission(
        model=model.strip(),
        facts=facts,
        is_public=is_public,
        suffix=suffix,
        file_digest=hashlib.sha256(content).hexdigest(),
        file_bytes=len(content),
    )
    submission_id = new_id()
    # The file is stored first, so that every submission in the database can be scored.
    await asyncio.to_thread(keep_upload, services, submission_id, suffix, content)
    try:
        await services.database.write(add_submission, account, board, new_submission, submission_id)
    except SnellenError:
        await asyncio.to_thread(delete_upload, services, submission_id)
        raise
    services.jobs.wake(SCORE_SUBMISSIONS)
    return await services.database.read(find_submission, submission_id, account)


async def _withdraw(services: Services, account: Account, submission_id: str) -> None:
    """Withdraw a submission of an account, and delete its upload."""
    await services.database.write(withdraw, account, submission_id)
    await asyncio.to_thread(delete_upload, services, submission_id)


async def _submission_page(
    request: Request,
    services: Services,
    board: Board,
    form_values: dict[str, str | bool] | None = None,
    fault: str = "",
    status: int = 200,
) -> HTMLResponse:
    """Return the page with the form to submit predictions.

    Args:
        request: The request.
        services: The services of the server.
        board: The board to submit to.
        form_values: The values of the fields, if the form is shown again after a fault.
        fault: The reason why the upload was rejected; empty at first.
        status: The HTTP status of the page.
    """
    values = {
        "board": board,
        "facts": await _board_facts(services, board),
        "given": form_values or {},
        "fault": fault,
        "most_bytes": settings_of(services).upload_bytes,
    }
    return services.pages.render(request, "leaderboard/submit.html", values, status)


def _template_lines(benchmarks: tuple[Benchmark, ...]) -> Iterator[str]:
    """Yield a JSON line for each question of the benchmarks, with an empty prediction to fill in."""
    for benchmark in benchmarks:
        for sample in benchmark.samples():
            for turn, question in enumerate(sample.rounds):
                row: dict[str, Any] = {"benchmark": benchmark.name, "id": sample.id}
                if sample.turns:
                    row["turn"] = turn
                row["question"] = question.question
                if question.options:
                    row["options"] = question.options
                row["prediction"] = ""
                yield json.dumps(row) + "\n"


FORM_BYTES = 64 * 1024
"""Maximum bytes of a form in addition to the file in it."""


def _upload_bytes(configuration: Configuration) -> Mapping[str, int]:
    """Return the maximum bytes of a request with an upload, by the beginning of its path."""
    settings = msgspec.convert(configuration.feature.get(NAME, {}), LeaderboardSettings)
    max_bytes = settings.upload_bytes + FORM_BYTES
    return {f"{PAGES}/": max_bytes, f"{API_BOARDS}/": max_bytes}


FEATURE = Feature(
    name=NAME,
    title="Leaderboard",
    router=router,
    package="snellen_server.leaderboard",
    migrations="snellen_server.leaderboard.migrations",
    tables=(submission, leaderboard_release),
    settings=LeaderboardSettings,
    navigation=(NavigationEntry("Leaderboard", PAGES),),
    jobs=(Job(SCORE_SUBMISSIONS, 60, score_waiting),),
    metrics=(
        Collector(
            "snellen_submissions",
            "Submissions to the leaderboard, by outcome",
            labels=("outcome",),
        ),
    ),
    health_checks=(HealthCheck("leaderboard", boards_fault),),
    limits=(RateLimit(UPLOADS, "20/hour", "60/hour"),),
    scopes={SUBMIT: "submit predictions to the leaderboard"},
    body_bytes=_upload_bytes,
    personal=(
        PersonalData(submission, "account_id"),
        # What was revealed stays revealed, so only the account is removed from the ledger.
        PersonalData(
            leaderboard_release,
            "account_id",
            hidden=("readings", "content", "cost"),
            on_erasure={"account_id": None},
        ),
    ),
    home=summarised_boards,
    hold=open_sets,
    template_values={"shown_number": shown_number},
)
