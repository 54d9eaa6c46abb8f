"""The ratings of an arena: computed by a job from the votes that there are, and frozen when an administrator asks."""

from __future__ import annotations

import asyncio
import io
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from sqlalchemy import Connection, delete, func, insert, select, update

from snellen.plugin_api import DataError
from snellen_server.arena.running import arena_of
from snellen_server.arena.tables import arena_rating
from snellen_server.arena.vote_export import count_votes, exported_votes, votes_of_pairs
from snellen_server.arena_ratings.battle import Battle, battle_table
from snellen_server.arena_ratings.bradley_terry import PairRecord, win_rates
from snellen_server.arena_ratings.elo import elo_ratings, shuffled_elo
from snellen_server.arena_ratings.log import VoteLog, vote_log
from snellen_server.arena_ratings.provisional import is_settled, provisional_ratings
from snellen_server.arena_ratings.rating import ArenaRating, ModelRating, counted_votes, encode_snapshot, rate_votes
from snellen_server.arena_ratings.settings import RatingSettings
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import utc_now

ORDERS = 50
"""Other orders of the votes in which Elo is computed again."""
JOB = "rate arena"


class EloStanding(Struct, frozen=True):
    """Online Elo of one model, and how much of it the order of the votes alone is."""

    model: str
    rating: float
    lowest: float
    """Of the same votes in other orders."""
    highest: float


class Standing(Struct, frozen=True):
    """What the page of ratings shows."""

    made: datetime
    votes: int
    """All votes that say something, of people and of judges."""
    rating: ArenaRating | None = None
    """Bradley-Terry by people's votes on battles whose models were hidden."""
    elo: tuple[EloStanding, ...] = ()
    pairs: tuple[PairRecord, ...] = ()
    judged: ArenaRating | None = None
    """The same by votes of judges alone."""
    notes: tuple[str, ...] = ()
    under_prior: tuple[ModelRating, ...] = ()
    """All models of people's votes by `provisional_ratings`; the page shows those that are not settled."""

    @property
    def settled(self) -> tuple[ModelRating, ...]:
        """Models on which enough people have voted, ranked among themselves within each group."""
        rows = [row for row in self.rating.models if is_settled(row)] if self.rating else []
        lows = [(row.group, row.low or 0.0) for row in rows]
        ranks = [1 + sum(group == row.group and low > (row.high or 0.0) for group, low in lows) for row in rows]
        return tuple(msgspec.structs.replace(row, rank=rank) for row, rank in zip(rows, ranks, strict=True))

    @property
    def provisional(self) -> tuple[ModelRating, ...]:
        """All other models, without a rank."""
        names = {row.model for row in self.settled}
        return tuple(row for row in self.under_prior if row.model not in names)

    @property
    def groups(self) -> int:
        """Groups of settled models, each rated by itself."""
        return len({row.group for row in self.settled})


def standing_of(battles: list[Battle], settings: RatingSettings, least: int = 1) -> Standing:
    """The ratings of some votes; what cannot be rated is said in the notes."""
    now, votes = utc_now(), len(battles)
    if votes < max(least, 1):
        return Standing(now, votes, notes=(f"ratings begin with {least:,} votes" if least > 1 else "no votes yet",))
    log = vote_log(battles)
    judges = msgspec.structs.replace(settings, voters="judge")
    has_judges = any(battle.voter_kind == "judge" for battle in battles)
    judged = _rated(log, judges) if has_judges else None
    notes = ("by judges: no two models can be compared yet",) if has_judges and not judged else ()
    try:
        counted = counted_votes(log, settings)
    except DataError as error:
        return Standing(now, votes, judged=judged, notes=(f"by people: {error}", *notes))
    values = elo_ratings(counted, settings)
    orders = shuffled_elo(counted, settings, ORDERS, np.random.default_rng(settings.seed))
    ranges = zip(counted.models, values, orders.min(axis=0), orders.max(axis=0), strict=True)
    return Standing(
        now,
        votes,
        _rated(log, settings),
        tuple(EloStanding(model, *map(float, numbers)) for model, *numbers in ranges),
        win_rates(counted),
        judged,
        notes,
        provisional_ratings(counted, settings),
    )


def latest_standing(connection: Connection) -> Standing | None:
    """The standing that the job has made last; None before the first."""
    chosen = select(arena_rating.c.standing).where(arena_rating.c.is_frozen.is_(False)).limit(1)
    content = connection.execute(chosen).scalar()
    return msgspec.convert(content, Standing) if content else None


def frozen_ratings(connection: Connection) -> list[dict[str, Any]]:
    """What was frozen, the last first: `id`, `made`, `votes`, and whether the job `is_ready` with it."""
    chosen = select(
        arena_rating.c.id, arena_rating.c.made, arena_rating.c.votes, arena_rating.c.snapshot.is_not(None)
    ).where(arena_rating.c.is_frozen)
    rows = connection.execute(chosen.order_by(arena_rating.c.id.desc())).all()
    return [dict(zip(("id", "made", "votes", "is_ready"), row, strict=True)) for row in rows]


def frozen_file(connection: Connection, number: int, column: str) -> bytes | None:
    """The `snapshot` (JSON) or `log` (Parquet) of a frozen rating."""
    chosen = select(arena_rating.c[column]).where(arena_rating.c.id == number, arena_rating.c.is_frozen)
    content: bytes | None = connection.execute(chosen).scalar()
    return content


def ask_to_freeze(connection: Connection) -> None:
    """Leave a rating to be frozen for the job."""
    connection.execute(insert(arena_rating).values(made=utc_now(), is_frozen=True, votes=0, standing={}))


async def rate_arena(services: Services) -> None:
    """Rate all votes when there are new ones, and freeze what is to be frozen."""
    votes, last, waiting = await services.database.read(_to_do)
    if votes == last and not waiting:
        return
    arena = arena_of(services)
    battles = await services.database.read(lambda connection: exported_votes(connection, texts=False))
    arena.pair_votes = votes_of_pairs(battles)
    settings = RatingSettings(resamples=arena.settings.resamples)
    standing = await asyncio.to_thread(standing_of, battles, settings, arena.settings.least_votes)
    await services.database.write(lambda connection: _keep(connection, standing))
    if waiting:
        files = await asyncio.to_thread(_frozen_files, standing, battles)
        await services.database.write(lambda connection: _freeze(connection, waiting, standing, files))


def _rated(log: VoteLog, settings: RatingSettings) -> ArenaRating | None:
    """The rating; None where no model can be compared with another yet."""
    try:
        return rate_votes(log, settings)
    except DataError:
        return None


def _to_do(connection: Connection) -> tuple[int, int | None, list[int]]:
    """Votes, votes at the last rating, and the ids of what is to be frozen."""
    last = connection.execute(
        select(func.max(arena_rating.c.votes)).where(arena_rating.c.is_frozen.is_(False))
    ).scalar()
    waiting = select(arena_rating.c.id).where(arena_rating.c.is_frozen, arena_rating.c.snapshot.is_(None))
    return count_votes(connection), last, list(connection.execute(waiting).scalars())


def _keep(connection: Connection, standing: Standing) -> None:
    connection.execute(delete(arena_rating).where(arena_rating.c.is_frozen.is_(False)))
    connection.execute(
        insert(arena_rating).values(
            made=standing.made, is_frozen=False, votes=standing.votes, standing=msgspec.to_builtins(standing)
        )
    )


def _frozen_files(standing: Standing, battles: list[Battle]) -> tuple[bytes, bytes] | None:
    if standing.rating is None:
        return None
    file = io.BytesIO()
    battle_table(battles).write_parquet(file)
    return encode_snapshot(standing.rating), file.getvalue()


def _freeze(connection: Connection, waiting: list[int], standing: Standing, files: tuple[bytes, bytes] | None) -> None:
    """Fill in what was asked for; where nothing can be rated there is nothing to freeze."""
    chosen = arena_rating.c.id.in_(waiting)
    if files is None:
        connection.execute(delete(arena_rating).where(chosen))
        return
    snapshot, log = files
    connection.execute(
        update(arena_rating)
        .where(chosen)
        .values(
            made=standing.made,
            votes=standing.votes,
            standing=msgspec.to_builtins(standing),
            snapshot=snapshot,
            log=log,
        )
    )
