"""The feature `arena`: its parts on the home page, the judge model, and its background jobs.

A judge model votes on the same battles as people, and its votes are kept apart from theirs.

The outcome of each vote is public. Question and images of a battle are shown on the home page only
if no visitor has written them: if they are an example of the operator, or come from an earlier run.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Row, exists, insert, or_, select
from sqlalchemy.exc import IntegrityError

from snellen import Decoding, Request
from snellen.plugin_api import ImageRef, Variant
from snellen_server.arena.battles import (
    HIDDEN,
    BattleTurn,
    arena_battle,
    arena_invitation,
    arena_network_key,
    arena_rating,
    arena_vote,
    arena_voter,
    void_abandoned,
    waiting_since,
)
from snellen_server.arena.model_pool import ServedModel, StoredImages, conversation
from snellen_server.arena.reloading import REREAD_SECONDS, reread_models
from snellen_server.arena.routes import QUESTIONS, QUESTIONS_A_DAY, VOTES, router
from snellen_server.arena.running import Arena, arena_of, open_arena, turns_of
from snellen_server.arena.settings import ARENA, ArenaSettings, JudgeSettings
from snellen_server.arena.standings import JOB, latest_standing, rate_arena
from snellen_server.arena.voters import current_period, forget_network_keys
from snellen_server.arena_ratings.log import Outcome
from snellen_server.hosting.database import BusyError
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
from snellen_server.hosting.pictures import find_image_ref
from snellen_server.hosting.repeating import repeating
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import utc_now

SHOWN_MODELS, SHOWN_BATTLES = 5, 5


class VotedBattle(Struct, frozen=True):
    """A battle that was voted on, so that its models may be named."""

    left: str
    right: str
    outcome: str
    question: str = ""
    """The first question; empty if a visitor wrote it."""
    images: tuple[str, ...] = ()


async def summarised_arena(services: Services) -> dict[str, Any]:
    """Return the values of `arena/home.html`."""
    arena = arena_of(services)
    standing, votes = await services.database.read(
        lambda connection: (latest_standing(connection), _latest_votes(connection))
    )
    rows = [*standing.ranked_models, *standing.provisional] if standing else []
    return {
        "is_open": bool(arena.settings.models),
        "has_recorded": bool(arena.recorded.shared),
        "ratings": rows[:SHOWN_MODELS],
        "more": len(rows) - SHOWN_MODELS,
        "battles": [_voted_battle(arena, vote) for vote in votes],
    }


def _latest_votes(connection: Connection) -> list[Row[*tuple[Any, ...]]]:
    """Return the last `SHOWN_BATTLES` votes by people in battles that hid the models' names."""
    battle = arena_battle.c
    query = (
        select(
            battle.kind,
            battle.left,
            battle.right,
            battle.images,
            battle.turns,
            arena_vote.c.outcome,
        )
        .join(arena_vote, arena_vote.c.battle_id == battle.id)
        .where(arena_vote.c.voter_kind == "person", battle.kind.in_(HIDDEN))
        .order_by(arena_vote.c.cast.desc())
    )
    return list(connection.execute(query.limit(SHOWN_BATTLES)))


def _voted_battle(arena: Arena, vote: Row[*tuple[Any, ...]]) -> VotedBattle:
    """Return the public part of a vote.

    Its question and images are included only if no visitor has written them: in battles between recorded replies
    (`offline`) and on the operator's examples.
    """
    question = vote.turns[0]["prompt"] if vote.turns else ""
    is_public = vote.kind == "offline"
    for example in arena.examples:
        if [example.digest] == vote.images and example.question == question:
            is_public = True
    if not question or not is_public:
        return VotedBattle(vote.left, vote.right, vote.outcome)
    return VotedBattle(vote.left, vote.right, vote.outcome, question, tuple(vote.images))


PROMPT = """Two assistants, A and B, were asked about one or more pictures. Compare their replies: which is more correct, \
more helpful and truer to the pictures? Neither the length of a reply nor the order of the two may matter.

{talk}

Explain briefly, and end with one line that is exactly one of these:
[[A]] when A is better
[[B]] when B is better
[[tie]] when both are about equally good
[[both bad]] when neither is of use"""
VERDICT = re.compile(r"\[\[(A|B|tie|both bad)\]\]")
MIRRORED: dict[Outcome, Outcome] = {
    "left": "right",
    "right": "left",
    "tie": "tie",
    "both bad": "both bad",
}


async def judge_battles(services: Services) -> None:
    """Have the judge model vote on battles that it has not voted on yet.

    Nothing happens if the arena has no judge model. The job ends early, and goes on when it runs next, if the server
    stops, the judge has failed several times in a row or has no room, or the budget is spent.
    """
    arena = arena_of(services)
    judge, model = arena.settings.judge, arena.pool.judge
    if judge is None or model is None or not model.is_available:
        return
    for battle, images in await services.database.read(_battles_to_judge, judge):
        if services.stopping.is_set() or not model.is_available:
            return
        try:
            await arena.spending.spend_on_judge()
            await _judge_battle(services, model, battle, images)
        except BusyError:
            return


async def _judge_battle(
    services: Services, model: ServedModel, battle: Row[Any], images: Sequence[ImageRef]
) -> None:
    """Ask the judge model about a battle twice, with the sides exchanged, and store its vote.

    If the two verdicts differ, the vote is a tie, because the judge was guided by the order. If the
    model fails, nothing is stored and the battle is judged another time.
    """
    turns = turns_of(battle)
    first_reply = await _ask_judge(services, model, _conversation_as_text(turns), images)
    second_reply = await _ask_judge(
        services, model, _conversation_as_text(_mirrored(turns)), images
    )
    if first_reply is None or second_reply is None:
        return
    first = verdict_in(first_reply)
    second = verdict_in(second_reply)
    second_unmirrored = MIRRORED[second] if second else None
    outcome = combined(first, second_unmirrored)
    # The judge's replies are not stored. They quote what people asked, and people may have that erased.
    detail = {"verdicts": [first, second], "version": model.version}
    try:
        await services.database.write(_store_judge_vote, model.name, battle.id, outcome, detail)
    except IntegrityError:
        LOGGER.info("judged already", extra={"facts": {"judge": model.name}})


def verdict_in(reply: str) -> Outcome | None:
    """Return the last verdict in a judge's reply, where A is the left side and B the right.

    For example, "A is vague. [[B]]" gives "right". None is returned if there is no verdict.
    """
    verdicts = VERDICT.findall(reply)
    names: dict[str, Outcome] = {"A": "left", "B": "right", "tie": "tie", "both bad": "both bad"}
    return names[verdicts[-1]] if verdicts else None


def combined(first: Outcome | None, second: Outcome | None) -> Outcome | None:
    """Combine a judge's two verdicts on a battle, both given in terms of the same sides.

    Returns:
        The verdict if both are equal, "tie" if they differ, None if one is missing.
    """
    if first is None or second is None:
        return None
    return first if first == second else "tie"


async def _ask_judge(
    services: Services, model: ServedModel, conversation_text: str, images: Sequence[ImageRef]
) -> str | None:
    """Ask the judge model which of two replies is better.

    Args:
        services: The server.
        model: The judge model.
        conversation_text: The question and both replies, as the prompt shows them.
        images: The images that the question is about.

    Returns:
        The text of the judge's verdict; None if the model failed.
    """
    prompt = PROMPT.format(talk=conversation_text)
    messages = conversation([], prompt, images)
    request = Request("arena", "judge", Variant(), messages, decoding=Decoding())
    model.reserve()
    stored_images = StoredImages(services.pictures)
    response, _ = await model.answer(request, stored_images, lambda text: None)
    if response.error:
        return None
    return response.text or ""


def _conversation_as_text(turns: Sequence[BattleTurn]) -> str:
    """Write a battle's questions and the replies of both sides (called A and B) as text for the judge."""
    parts = []
    for turn in turns:
        left = turn.left.text if turn.left else ""
        right = turn.right.text if turn.right else ""
        parts.append(f"Question: {turn.prompt}\n\nReply of A:\n{left}\n\nReply of B:\n{right}")
    return "\n\n".join(parts)


def _mirrored(turns: Sequence[BattleTurn]) -> list[BattleTurn]:
    return [replace(turn, left=turn.right, right=turn.left) for turn in turns]


def _battles_to_judge(
    connection: Connection, judge: JudgeSettings
) -> list[tuple[Row[Any], list[ImageRef]]]:
    """Return the oldest battles, at most `judge.battles`, that this judge can vote on, each with its images.

    These are battles with hidden model names that were voted on or abandoned, or whose replies have had no vote for
    `judge.every_seconds` seconds.
    """
    battle = arena_battle.c
    has_judged = exists().where(
        arena_vote.c.battle_id == battle.id, arena_vote.c.judge == judge.name
    )
    is_answered = battle.state == "answered"
    is_left_alone = is_answered & (battle.changed <= waiting_since(judge.every_seconds))
    query = (
        select(arena_battle)
        .where(
            or_(battle.state.in_(("voted", "abandoned")), is_left_alone),
            battle.kind.in_(HIDDEN),
            battle.turn_count > 0,
            ~has_judged,
        )
        .order_by(battle.changed)
        .limit(judge.battles)
    )
    unjudged = []
    for row in connection.execute(query).all():
        if not row.turns:
            continue
        images = [find_image_ref(connection, digest) for digest in row.images]
        # A deleted image is left out: its sender's data were erased, and the replies remain to be judged.
        unjudged.append((row, [image for image in images if image is not None]))
    return unjudged


def _store_judge_vote(
    connection: Connection, judge: str, battle: str, outcome: Outcome | None, detail: dict[str, Any]
) -> None:
    """Store a judge's vote on a battle; `outcome` is None if its verdict could not be read."""
    connection.execute(
        insert(arena_vote).values(
            battle_id=battle,
            voter_kind="judge",
            judge=judge,
            voter=None,  # the votes of one model do not depend on each other as those of one person may
            outcome=outcome,
            cast=utc_now(),
            detail=detail,
        )
    )


LATE = 3
"""The number of time limits of the slowest model after which a battle without replies is void."""


async def void_late_battles(services: Services) -> None:
    """End old battles that still wait for replies, because the server process that requested them has stopped."""
    longest = 60.0
    models = arena_of(services).settings.models
    if models:
        # A model may first have to answer the requests that wait for it.
        longest = max(model.seconds * (2 + model.waiting) for model in models)
    await services.database.write(void_abandoned, waiting_since(LATE * longest))


async def forget_networks(services: Services) -> None:
    """Delete the keys of past periods.

    Without them, nobody can find out any more which network a pseudonym stands for.
    """
    period = current_period(arena_of(services).settings.network_days)
    await services.database.write(forget_network_keys, period)


async def _fault(services: Services) -> str | None:
    fault = arena_of(services).pool.fault
    return f"the arena is not ready: {fault}" if fault else None


@asynccontextmanager
async def open_arena_and_watch(services: Services) -> AsyncIterator[Arena]:
    """Run the arena inside a `with` block, and reread the file with its models when that changes."""
    async with open_arena(services) as arena, repeating(services, REREAD_SECONDS, reread_models):
        yield arena


FEATURE = Feature(
    name=ARENA,
    title="Arena",
    router=router,
    package="snellen_server.arena",
    migrations="snellen_server.arena.migrations",
    tables=(
        arena_battle,
        arena_vote,
        arena_voter,
        arena_rating,
        arena_invitation,
        arena_network_key,
    ),
    settings=ArenaSettings,
    navigation=(NavigationEntry("Arena", "/arena"),),
    jobs=(
        Job(JOB, 30, rate_arena),
        Job("void late battles", 60, void_late_battles),
        Job("forget networks", 3600, forget_networks),
        Job("judge battles", 30, judge_battles),
    ),
    metrics=(
        Collector(
            "snellen_arena_battles",
            "Questions completed and battles abandoned, by outcome",
            labels=("state",),
        ),
        Collector("snellen_arena_votes", "Votes of people", labels=("kind", "outcome")),
        Collector("snellen_arena_reply_seconds", "Time of one reply", "histogram", ("model",)),
    ),
    health_checks=(HealthCheck(ARENA, _fault),),
    limits=(
        RateLimit(QUESTIONS, "20/minute", "120/minute"),
        RateLimit(QUESTIONS_A_DAY, "300/day", "1500/day"),
        RateLimit(VOTES, "30/minute", "180/minute"),
    ),
    personal=(
        PersonalData(
            arena_battle,
            "account_id",
            "visitor",
            # Who sees the names before the vote knows whom it is for.
            hidden=(
                "token_digest",
                "left",
                "left_version",
                "right",
                "right_version",
                "origin",
                "fault",
            ),
            on_erasure={
                "account_id": None,
                "visitor": None,
                "turns": [],
                "turn_count": 0,
                "images": [],
                "token_digest": None,
            },
        ),
        # Without it nothing says any more whose votes these are; that they are one person's stays known.
        PersonalData(arena_voter, actor_column="actor"),
    ),
    home=summarised_arena,
    hold=open_arena_and_watch,
)
