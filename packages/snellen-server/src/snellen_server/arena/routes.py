"""The web addresses of the arena: its pages, and the API that their scripts use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Form, HTTPException, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from sqlalchemy import Connection, Row

from snellen import DataError
from snellen.plugin_api import ImageRef, read_file
from snellen_server.arena.battles import (
    VOTED_ON,
    BattleKind,
    BattleState,
    BattleTurn,
    Contender,
    NewBattle,
    Side,
    SideReply,
    begin_turn,
    cast_vote,
    check_further,
    create_battle,
    current_battle,
    find_battle,
    finish_turn,
    leave_battles,
    vote_token,
)
from snellen_server.arena.running import (
    UNAVAILABLE,
    Arena,
    ReplyProgress,
    arena_of,
    turns_of,
)
from snellen_server.arena.settings import MAX_IMAGES, ArenaModel
from snellen_server.arena.slices import category_of
from snellen_server.arena.standings import (
    JOB,
    EloStanding,
    Standing,
    ask_to_freeze,
    conversations,
    count_abandoned,
    frozen_file,
    frozen_ratings,
    latest_standing,
    rating_settings,
)
from snellen_server.arena.voters import create_invitation, list_invitations, take_seat
from snellen_server.arena_ratings.log import Outcome
from snellen_server.arena_ratings.rating import SETTLED_VOTERS, SETTLED_VOTES, ModelRating
from snellen_server.arena_ratings.votes import TrustSettings
from snellen_server.hosting.accounts import note
from snellen_server.hosting.callers import AdminDep, Caller, CallerDep, Limited, ServicesDep
from snellen_server.hosting.contributions import Contribution
from snellen_server.hosting.database import BusyError
from snellen_server.hosting.features import NavigationEntry
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.pictures import find_image_ref, keep_image, may_use
from snellen_server.hosting.services import Services

router = APIRouter()
QUESTIONS, VOTES = "arena questions", "arena votes"
QUESTIONS_A_DAY = "arena questions a day"
API = "/api/v1/arena"
QUIET_SECONDS = 15.0
"""After so long without a word a stream sends an empty comment, so that no proxy takes it for dead."""
Question = Annotated[
    str, Field(min_length=1, max_length=20_000, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")
]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"description": "Not possible in this state of the battle"},
    503: {"description": "The models are busy; try again in a moment"},
}
STREAM: dict[int | str, dict[str, Any]] = {
    **CONFLICT,
    200: {
        "description": "Server-sent events",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
}


class BattleRequest(BaseModel, extra="forbid"):
    """The body of a request that starts a battle or a chat."""

    kind: Literal["anonymous", "named", "chat"] = "anonymous"
    question: Question
    images: list[Digest] = Field(default_factory=list, max_length=MAX_IMAGES)
    """Digests of images that the same visitor has uploaded, or of examples. May be empty if the arena allows it."""
    left: str = Field("", max_length=100)
    """Name of a model, unless models are drawn at random. A chat has only a left model."""
    right: str = Field("", max_length=100)


class QuestionRequest(BaseModel, extra="forbid"):
    """The body of a request that asks a further question in a battle."""

    question: Question


class VoteRequest(BaseModel, extra="forbid"):
    """The body of a vote. `token` is the one that came with the latest replies."""

    token: str = Field(max_length=100)
    outcome: Outcome
    consent: bool = False
    """Whether the operator may publish this conversation."""


class ShownTurn(BaseModel):
    """A question with the replies of both sides; a reply is null until it has arrived."""

    question: str
    left: str | None = None
    right: str | None = None


class ShownBattle(BaseModel):
    """What the owner of a battle may see of it. The models are null while their names are hidden."""

    id: str
    kind: BattleKind
    state: BattleState
    images: list[str]
    """Digests of the images that were asked about."""
    turns: list[ShownTurn]
    left: Contender | None = None
    right: Contender | None = None
    token: str | None = None
    """The token that a vote needs, while the battle can be voted on."""


async def _browser(caller: CallerDep) -> Caller:
    """Return the caller, who must be a person at a browser, with or without an account.

    A request with an API key is refused (403), because programs may not vote.
    """
    if caller.scopes is not None:
        raise HTTPException(
            403, "the arena is for people with a browser; an API key is not accepted"
        )
    return caller


BrowserDep = Annotated[Caller, Depends(_browser)]


# --- battles -----------------------------------------------------------------------------------------------------


@router.post(
    f"{API}/battles",
    tags=["arena"],
    response_class=StreamingResponse,
    responses=STREAM,
    dependencies=[Depends(Limited(QUESTIONS)), Depends(Limited(QUESTIONS_A_DAY))],
)
async def begin_battle(
    body: BattleRequest, services: ServicesDep, caller: BrowserDep
) -> StreamingResponse:
    """Start a battle: send a question to two models, and stream their replies.

    This ends the caller's open battle of the same kind. The events are `battle` with the id of the
    new battle, `text` with the growing reply of a side, and finally `answered` or `voided`.
    """
    arena = arena_of(services)
    await _moderate(services, arena, body.question)
    if not body.images and not arena.settings.without_image:
        raise HTTPException(422, "a question needs an image here; add one")
    if len(body.images) > arena.settings.max_images:
        raise HTTPException(
            422, f"a question has at most {arena.settings.max_images} images here; remove some"
        )
    images = await services.database.read(_usable_images, caller, body.images)
    # A honeypot is a battle with a known better reply, which tests voters. It is refused whenever a normal battle is.
    # Otherwise voters could recognise it by not being refused.
    new = _new_battle(arena, body)
    placed = arena.draw_honeypot(body.images, body.question) if body.kind == "anonymous" else None
    async with arena.spending.spend((new.left.name, new.right.name)):
        if placed is not None:
            honeypot = arena.honeypot_battle("anonymous", placed)
            battle = replace(honeypot, turn=BattleTurn(body.question))
            name, abandoned = await services.database.write(_store_new_battle, caller, battle)
            progress = arena.recite(name, honeypot.turn)
        else:
            with arena.reserve(new.left.name, new.right.name) as sides:
                name, abandoned = await services.database.write(_store_new_battle, caller, new)
            progress = arena.answer(name, sides, [new.turn], images)
    _count_abandoned(services, abandoned)
    return _stream(name, progress)


@router.post(
    f"{API}/battles/{{name}}/turns",
    tags=["arena"],
    response_class=StreamingResponse,
    responses=STREAM,
    dependencies=[Depends(Limited(QUESTIONS)), Depends(Limited(QUESTIONS_A_DAY))],
)
async def ask_further(
    name: str, body: QuestionRequest, services: ServicesDep, caller: BrowserDep
) -> StreamingResponse:
    """Send one more question to both models of a battle, and stream their replies as `begin_battle` does."""
    arena = arena_of(services)
    await _moderate(services, arena, body.question)
    max_turns = arena.settings.turns

    def read_own_battle(connection: Connection) -> tuple[Row[Any], list[ImageRef]]:
        """Return the caller's battle, and those of its images that have not been deleted."""
        battle = find_battle(connection, caller, name)
        check_further(battle, max_turns)
        stored_images = []
        for digest in battle.images:
            image = find_image_ref(connection, digest)
            if image is not None:
                stored_images.append(image)
        return battle, stored_images

    battle, images = await services.database.read(read_own_battle)
    if len(images) < len(battle.images):
        raise HTTPException(404, "an image is no longer available; start another battle")
    for model in (battle.left, battle.right):
        # An unknown model is one of a honeypot battle, or was removed from the arena. The message is the one for a
        # model that does not answer, so that it does not reveal a honeypot.
        if model and model not in arena.pool.models:
            raise BusyError(UNAVAILABLE)
    async with arena.spending.spend((battle.left, battle.right)):
        with arena.reserve(battle.left, battle.right) as sides:
            battle = await services.database.write(
                begin_turn, caller, name, body.question, max_turns
            )
    return _stream(name, arena.answer(name, sides, turns_of(battle), images))


@router.post(
    f"{API}/battles/{{name}}/vote",
    tags=["arena"],
    responses=CONFLICT,
    dependencies=[Depends(Limited(VOTES))],
)
async def vote(
    name: str, cast: VoteRequest, services: ServicesDep, caller: BrowserDep
) -> ShownBattle:
    """Vote on a battle, which can be done once, and return it with the names of the models."""
    facts_of = await arena_of(services).vote_facts(caller.network, consent=cast.consent)
    battle = await services.database.write(
        cast_vote, caller, name, cast.token, cast.outcome, facts_of
    )
    services.metrics["snellen_arena_votes"].labels(battle.kind, cast.outcome).inc()
    return _visible_battle(services, battle)


@router.post(
    f"{API}/recorded",
    tags=["arena"],
    responses=CONFLICT,
    dependencies=[Depends(Limited(QUESTIONS)), Depends(Limited(QUESTIONS_A_DAY))],
)
async def begin_recorded(services: ServicesDep, caller: BrowserDep) -> ShownBattle:
    """Start a battle between replies that two models gave in earlier runs.

    No model is asked; the battle can be voted on at once.
    """
    arena = arena_of(services)
    placed = arena.draw_recorded_honeypot() if arena.recorded.shared else None
    if placed is not None:
        new = arena.honeypot_battle("offline", placed)
    else:
        new = await _recorded_battle(services, arena)

    def record_answered(connection: Connection) -> tuple[Row[Any], int]:
        name, abandoned = _store_new_battle(connection, caller, new)
        finish_turn(connection, services.signer, name, [new.turn])
        return find_battle(connection, caller, name), abandoned

    battle, abandoned = await services.database.write(record_answered)
    _count_abandoned(services, abandoned)
    return _visible_battle(services, battle)


@router.get(f"{API}/battles/{{name}}", tags=["arena"])
async def show_battle(name: str, services: ServicesDep, caller: CallerDep) -> ShownBattle:
    """Return a battle of the caller."""
    battle = await services.database.read(find_battle, caller, name)
    return _visible_battle(services, battle)


@router.get(
    f"{API}/battles/{{name}}/events",
    tags=["arena"],
    response_class=StreamingResponse,
    responses={409: CONFLICT[409], 200: STREAM[200]},
)
async def follow_battle(name: str, services: ServicesDep, caller: CallerDep) -> StreamingResponse:
    """Stream the replies to the last question of a battle of the caller, from their beginning.

    This is for a page that was reloaded while the replies arrive. If they have all arrived or
    failed, the request is refused (409).
    """
    await services.database.read(find_battle, caller, name)
    progress = arena_of(services).under_way(name)
    if progress is None:
        raise HTTPException(
            409, "the replies have arrived or failed in the meantime; vote, or start another battle"
        )
    return _stream(name, progress)


async def _recorded_battle(services: Services, arena: Arena) -> NewBattle:
    """Return a battle between two models' replies to the same question in earlier runs.

    Refuses (404) if an image of the question can no longer be read.
    """
    pair, key = arena.draw_recorded()
    recorded = arena.recorded
    question = recorded.questions[key]
    digests: list[str] = []
    for image in question.images:
        try:
            content = await asyncio.to_thread(question.store.read, image)
        except DataError as error:
            # The message of the error names folders of this machine, so it is only logged.
            LOGGER.error("image of a run cannot be read", extra={"facts": {"error": str(error)}})
            raise HTTPException(
                404, "an image of this question is no longer available; request another one"
            ) from None
        digests.append((await keep_image(services, content)).digest)
    sides: dict[Side, str] = {"left": pair.left, "right": pair.right}
    replies = {side: SideReply(recorded.replies[label][key]) for side, label in sides.items()}
    turn = BattleTurn(question.prompt, **replies)
    return NewBattle(
        "offline",
        recorded.contenders[pair.left],
        recorded.contenders[pair.right],
        turn,
        tuple(digests),
        arena.settings.sampling,
        pair.propensity,
        question.benchmark,
        {"benchmark": question.benchmark, "sample": question.sample},
    )


def _store_new_battle(connection: Connection, caller: Caller, new: NewBattle) -> tuple[str, int]:
    """Store a new battle, and end the caller's open battles of the same kind.

    Returns:
        The id of the new battle, and the number of battles that were abandoned.
    """
    abandoned = leave_battles(connection, caller, new.kind)
    return create_battle(connection, caller, new), abandoned


def _count_abandoned(services: Services, count: int) -> None:
    services.metrics["snellen_arena_battles"].labels("abandoned").inc(count)


def _new_battle(arena: Arena, body: BattleRequest) -> NewBattle:
    """Return the battle that a person asked for, not yet stored.

    Its models are drawn at random ("anonymous"), chosen by the person ("named"), or a single one ("chat").
    """
    turn = BattleTurn(body.question)
    images = tuple(body.images)
    if body.kind == "anonymous":
        pair = arena.draw()
        return NewBattle(
            "anonymous",
            arena.contender(pair.left),
            arena.contender(pair.right),
            turn,
            images,
            sampling=arena.settings.sampling,
            propensity=pair.propensity,
            category=category_of(body.question, arena.settings.categories),
        )
    left = arena.contender(body.left)
    if body.kind == "chat":
        return NewBattle("chat", left, Contender("", ""), turn, images)
    if body.left == body.right:
        raise HTTPException(422, "choose two different models")
    return NewBattle("named", left, arena.contender(body.right), turn, images)


async def _moderate(services: Services, arena: Arena, question: str) -> None:
    """Refuse a question that is too long (422) or that a moderator rejects (403)."""
    if len(question) > arena.settings.question_characters:
        raise HTTPException(
            422, f"a question has at most {arena.settings.question_characters:,} characters"
        )
    verdict = await services.moderation.judge(
        Contribution("text", text=question, purpose="arena question")
    )
    if not verdict.is_allowed:
        raise HTTPException(403, f"this question was rejected: {verdict.reason}")


def _usable_images(
    connection: Connection, caller: Caller, digests: Sequence[str]
) -> list[ImageRef]:
    """Return the images with these digests, which must be the caller's own or the operator's.

    Any other image is refused (404).
    """
    images: list[ImageRef] = []
    for digest in digests:
        image = find_image_ref(connection, digest) if may_use(connection, caller, digest) else None
        if image is None:
            raise HTTPException(404, "you have not uploaded this image; upload it first")
        images.append(image)
    return images


def _visible_battle(services: Services, battle: Row[Any]) -> ShownBattle:
    """Return what a person may see of a battle.

    The models stay hidden until the vote, and the token that allows a vote is included only once there are replies.
    """
    turns = []
    for turn in turns_of(battle):
        left_text = turn.left.text if turn.left else None
        right_text = turn.right.text if turn.right else None
        turns.append(ShownTurn(question=turn.prompt, left=left_text, right=right_text))

    left = None
    right = None
    if battle.state == "voted" or battle.kind in ("named", "chat"):
        left = Contender(battle.left, battle.left_version)
        if battle.right:  # a chat has one model
            right = Contender(battle.right, battle.right_version)
    token = None
    if battle.state == "answered" and battle.kind in VOTED_ON:
        token = vote_token(services.signer, battle.id, battle.turn_count)
    return ShownBattle(
        id=battle.id,
        kind=battle.kind,
        state=battle.state,
        images=battle.images,
        turns=turns,
        left=left,
        right=right,
        token=token,
    )


# --- streams -----------------------------------------------------------------------------------------------------


def _stream(name: str, progress: ReplyProgress) -> StreamingResponse:
    """Return a response that streams the replies of a battle as server-sent events."""
    # Ask proxies not to collect the response before they pass it on.
    return StreamingResponse(
        _events(name, progress), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


async def _events(name: str, progress: ReplyProgress) -> AsyncIterator[bytes]:
    """Yield the events of a question, as the bytes of a stream of server-sent events, until it has an outcome.

    The first event is `battle`. Each `text` has what was added to the reply of a side since the last event, or with
    `replace` the new reply as a whole. `end` says that the reply of a side is complete, and the last event is the outcome.
    After `QUIET_SECONDS` without a change, an empty comment keeps the connection open.
    """
    yield _event("battle", {"id": name})
    texts: dict[Side, str] = {}
    ended: set[Side] = set()
    while True:
        changed = progress.changed
        outcome = progress.outcome
        for side, text in progress.texts.items():
            sent_text = texts.get(side, "")
            texts[side] = text
            if text == sent_text:
                continue
            if text.startswith(sent_text):
                added_text = text.removeprefix(sent_text)
                yield _event("text", {"side": side, "text": added_text, "replace": False})
            else:
                yield _event("text", {"side": side, "text": text, "replace": True})
        for side in sorted(progress.ended - ended):
            ended.add(side)
            yield _event("end", {"side": side})
        if outcome is not None:
            values = {key: value for key, value in outcome.items() if key != "state"}
            yield _event(outcome["state"], values)
            return
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await changed.wait()
        except TimeoutError:
            yield b":\n\n"


def _event(kind: str, content: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode(content) + b"\n\n"


# --- pages -------------------------------------------------------------------------------------------------------

PAGES: dict[str, tuple[BattleKind, str]] = {
    "": ("anonymous", "Which reply is better?"),
    "/named": ("named", "Two models side by side"),
    "/chat": ("chat", "Talk with one model"),
    "/recorded": ("offline", "Replies of earlier runs"),
}
PARTS = (
    NavigationEntry("Battle", "/arena"),
    NavigationEntry("Side by side", "/arena/named"),
    NavigationEntry("One model", "/arena/chat"),
    NavigationEntry("Earlier replies", "/arena/recorded"),
    NavigationEntry("Ratings", "/arena/ratings"),
)


@router.get("/arena", include_in_schema=False)
@router.get("/arena/named", include_in_schema=False)
@router.get("/arena/chat", include_in_schema=False)
@router.get("/arena/recorded", include_in_schema=False)
async def battle_page(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    """Show the page of one kind of battle, with the battle that the caller left open, if any."""
    arena = arena_of(services)
    kind, title = PAGES[request.url.path.removeprefix("/arena")]
    battle = await services.database.read(current_battle, caller, kind)
    names = [name for name, model in arena.pool.models.items() if model.replies]
    values = {
        "kind": kind,
        "title": title,
        "battle": _visible_battle(services, battle).model_dump_json() if battle else "",
        "parts": PARTS,
        "models": names,
        "has_models": bool(arena.settings.models),
        "fault": "" if kind == "chat" else arena.pool.why_no_battle,
        "is_loading": arena.pool.is_loading,
        "without_image": arena.settings.without_image,
        "max_images": arena.settings.max_images,
        "examples": arena.examples,
        "has_recorded": bool(arena.recorded.shared),
        "question_characters": arena.settings.question_characters,
    }
    return services.pages.render(request, "arena/battle.html", values)


@router.get("/arena/ratings", include_in_schema=False)
async def ratings_page(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    by: Annotated[str, Query(max_length=200)] = "",
) -> HTMLResponse:
    """Show the ratings of all votes, or of a part of them.

    `by` is the address of that part, such as the votes in one language. A part without ratings is answered with 404.
    Invitations are only shown to an administrator.
    """
    is_admin = caller.is_admin

    def read_page(
        connection: Connection,
    ) -> tuple[Standing | None, list[dict[str, Any]], int, list[Row[Any]]]:
        """Return the latest standing, the frozen ratings, the number of abandoned battles, and the invitations."""
        invitations = list_invitations(connection) if is_admin else []
        standing = latest_standing(connection)
        return standing, frozen_ratings(connection), count_abandoned(connection), invitations

    standing, frozen, abandoned, invitations = await services.database.read(read_page)
    trust = rating_settings(services).trust
    slices = standing.slices if standing else ()
    elo_by_model: dict[str, EloStanding] = {}
    other_ratings_by_model: dict[str, ModelRating] = {}
    if standing:
        elo_by_model = {rating.model: rating for rating in standing.elo}
        if standing.beside:
            other_ratings_by_model = {row.model: row for row in standing.beside.models}
    chosen_slice = None
    for rated_slice in slices:
        if rated_slice.address == by:
            chosen_slice = rated_slice
            break
    if by and chosen_slice is None:
        raise HTTPException(
            404,
            "this part of the votes has no ratings now; /arena/ratings has those that there are",
        )
    values = {
        "slices": slices,
        "slice": chosen_slice,
        "standing": standing,
        "frozen": frozen,
        "abandoned": abandoned,
        "parts": PARTS,
        "matrix": _records_by_pair(standing),
        "elo": elo_by_model,
        "beside": other_ratings_by_model,
        "trust": trust,
        "about": _described_models(services),
        "is_stopped": arena_of(services).spending.is_stopped,
        "is_default_trust": trust == TrustSettings(),
        "prices": measured_prices(),
        "invitations": invitations,
        "settled_votes": SETTLED_VOTES,
        "settled_voters": SETTLED_VOTERS,
    }
    return services.pages.render(request, "arena/ratings.html", values)


@router.post("/arena/ratings/freeze", include_in_schema=False)
async def freeze_ratings(services: ServicesDep, admin: AdminDep) -> Response:
    """Ask the rating job to freeze the current ratings, so that they can be cited and downloaded."""

    def freeze(connection: Connection) -> None:
        ask_to_freeze(connection)
        note(connection, admin.actor, "arena ratings frozen")

    await services.database.write(freeze)
    services.jobs.wake(JOB)
    return RedirectResponse("/arena/ratings", 303)


@router.get("/arena/conversations.jsonl", include_in_schema=False)
async def conversations_file(services: ServicesDep, admin: AdminDep) -> Response:
    """Download, as an administrator, the conversations whose voters agreed to their publication."""

    def read_lines(connection: Connection) -> bytes:
        rows = conversations(connection)
        return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)

    content = await services.database.read(read_lines)
    saved = {"content-disposition": 'attachment; filename="conversations.jsonl"'}
    return Response(content, media_type="application/jsonl", headers=saved)


@router.post("/arena/switch", include_in_schema=False)
async def switch_arena(
    services: ServicesDep, admin: AdminDep, stopped: Annotated[bool, Form()]
) -> Response:
    """Stop all questions at once, or allow them again."""
    arena_of(services).spending.switch(stopped=stopped)
    action = "arena stopped" if stopped else "arena started"
    await services.database.write(lambda connection: note(connection, admin.actor, action))
    return RedirectResponse("/arena/ratings", 303)


@router.post("/arena/invitations", include_in_schema=False)
async def make_invitation(
    request: Request,
    services: ServicesDep,
    admin: AdminDep,
    title: Annotated[str, Form(min_length=1, max_length=100)],
    seats: Annotated[int, Form(ge=1, le=100_000)],
    days: Annotated[int, Form(ge=1, le=3_650)],
) -> HTMLResponse:
    """Create an invitation for `seats` visitors, and show its link this one time.

    The votes of visitors who accept it have the trust class "invited".
    """

    def make(connection: Connection) -> str:
        token = create_invitation(connection, title, seats, days)
        note(connection, admin.actor, "arena invitation made", title)
        return token

    token = await services.database.write(make)
    values = {"parts": PARTS, "token": token, "seats": seats, "days": days}
    return services.pages.render(request, "arena/invited.html", values)


@router.get("/arena/invited/{token}", include_in_schema=False)
async def invitation_page(
    token: Annotated[str, Path(max_length=100)], request: Request, services: ServicesDep
) -> HTMLResponse:
    """Show the page on which an invited voter accepts."""
    values = {"parts": PARTS, "token": "", "taking": token}
    return services.pages.render(request, "arena/invited.html", values)


@router.post("/arena/invited/{token}", include_in_schema=False)
async def take_invitation(
    token: Annotated[str, Path(max_length=100)], services: ServicesDep, caller: BrowserDep
) -> Response:
    """Accept an invitation for this browser; its votes then have the trust class "invited"."""
    await services.database.write(take_seat, caller.actor, token)
    return RedirectResponse("/arena", 303)


FILES = {
    "snapshot.json": ("snapshot", "application/json"),
    "votes.parquet": ("log", "application/vnd.apache.parquet"),
}


@router.get("/arena/ratings/{number}/{file}", include_in_schema=False)
async def frozen_rating_file(number: int, file: str, services: ServicesDep) -> Response:
    """Download a file of frozen ratings; 404 if there is none."""
    column, media_type = FILES.get(file, ("", ""))
    content = None
    if column and number < 2**63:
        content = await services.database.read(frozen_file, number, column)
    if content is None:
        raise HTTPException(404, "nothing was frozen under this name")
    saved = {"content-disposition": f'attachment; filename="arena-{number}-{file}"'}
    return Response(content, media_type=media_type, headers=saved)


def _described_models(services: Services) -> dict[str, ArenaModel]:
    """Return the arena's models by name, or {} if the operator has described none of them (maker, licence, price)."""
    models = arena_of(services).settings.models
    for model in models:
        if model.maker or model.licence or model.reply_price or model.retired:
            return {model.name: model for model in models}
    return {}


@cache
def measured_prices() -> list[dict[str, str]]:
    """Return the measured costs of manipulating the ratings, as rows of a table for the page.

    They were written by `bench/arena_attacks.py --price --write`.
    """
    content = read_file(FilePath(__file__).parent / "prices.json")
    return msgspec.json.decode(content, type=list[dict[str, str]])


def _records_by_pair(standing: Standing | None) -> dict[str, dict[str, Any]]:
    """Return the results between each two models: `matrix[model][opponent]` is their record.

    The dict is empty if nothing has been rated yet.
    """
    matrix: dict[str, dict[str, Any]] = {}
    if standing is None:
        return matrix
    for record in standing.pairs:
        records_of_model = matrix.setdefault(record.model, {})
        records_of_model[record.opponent] = record
    return matrix
