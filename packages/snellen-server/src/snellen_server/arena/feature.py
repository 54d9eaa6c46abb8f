"""The feature `arena`."""

from __future__ import annotations

from snellen_server.arena.battles import void_abandoned, waiting_since
from snellen_server.arena.judging import judge_battles
from snellen_server.arena.routes import QUESTIONS, VOTES, router
from snellen_server.arena.running import arena_of, open_arena
from snellen_server.arena.settings import ARENA, ArenaSettings
from snellen_server.arena.standings import JOB, rate_arena
from snellen_server.arena.summary import summarised_arena
from snellen_server.arena.tables import arena_battle, arena_rating, arena_vote, arena_voter
from snellen_server.hosting.features import Collector, Feature, HealthCheck, Job, NavigationEntry, PersonalData
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.services import Services

LATE = 3
"""The number of time limits of the slowest model after which a battle without replies is void."""


async def void_late_battles(services: Services) -> None:
    """End the battles whose replies will not come any more, since the server that asked was ended."""
    models = arena_of(services).settings.models
    longest = LATE * max((model.seconds * (2 + model.waiting) for model in models), default=60.0)
    before = waiting_since(longest)
    await services.database.write(lambda connection: void_abandoned(connection, before))


async def _fault(services: Services) -> str | None:
    fault = arena_of(services).pool.fault
    return f"the arena is not ready: {fault}" if fault else None


FEATURE = Feature(
    name=ARENA,
    title="Arena",
    router=router,
    package="snellen_server.arena",
    migrations="snellen_server.arena.migrations",
    tables=(arena_battle, arena_vote, arena_voter, arena_rating),
    settings=ArenaSettings,
    navigation=(NavigationEntry("Arena", "/arena"),),
    jobs=(
        Job(JOB, 30, rate_arena),
        Job("void late battles", 60, void_late_battles),
        Job("judge battles", 30, judge_battles),
    ),
    metrics=(
        Collector(
            "snellen_arena_battles", "Questions settled and battles left, by what became of them", labels=("state",)
        ),
        Collector("snellen_arena_votes", "Votes of people", labels=("kind", "outcome")),
        Collector("snellen_arena_reply_seconds", "Time of one reply", "histogram", ("model",)),
    ),
    health_checks=(HealthCheck(ARENA, _fault),),
    limits=(RateLimit(QUESTIONS, "20/minute", "120/minute"), RateLimit(VOTES, "30/minute", "180/minute")),
    personal=(
        PersonalData(
            arena_battle,
            "account_id",
            "visitor",
            # Who sees the names before the vote knows whom it is for.
            hidden=("token_digest", "left", "left_version", "right", "right_version", "origin", "fault"),
            on_erasure={
                "account_id": None,
                "visitor": None,
                "turns": [],
                "turn_count": 0,
                "image": None,
                "token_digest": None,
            },
        ),
        # Without it nothing says any more whose votes these are; that they are one person's stays known.
        PersonalData(arena_voter, actor_column="actor"),
    ),
    home=summarised_arena,
    hold=open_arena,
)
