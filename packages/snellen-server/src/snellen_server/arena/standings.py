"""The ratings of an arena, which a background job computes from all votes.

An administrator can freeze the current ratings, so that they can be cited and downloaded.
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct, field
from sqlalchemy import Connection, Row, and_, delete, func, insert, select, update

from snellen import DataError
from snellen_server.arena.battles import HIDDEN, arena_battle, arena_rating, arena_vote
from snellen_server.arena.running import arena_of
from snellen_server.arena.slices import RatingSlice, rated_slices
from snellen_server.arena_ratings.bradley_terry import (
    PairRecord,
    elo_ratings,
    shuffled_elo,
    win_rates,
)
from snellen_server.arena_ratings.log import Battle, VoteLog, battle_table, vote_log
from snellen_server.arena_ratings.rating import (
    ArenaRating,
    ModelRating,
    counted_votes,
    encode_snapshot,
    provisional_ratings,
    ranked_when_settled,
    rate_votes,
)
from snellen_server.arena_ratings.trust import TrustShare, trust_shares, within_shares
from snellen_server.arena_ratings.votes import RatingSettings
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import utc_now

COLUMNS_OF_VOTE = (
    "id",
    "kind",
    "left",
    "left_version",
    "right",
    "right_version",
    "propensity",
    "category",
    "origin",
)
COLUMNS_OF_TEXT = ("images", "turns")


def count_votes(connection: Connection) -> int:
    """Return the number of votes by people and by judges that state an outcome."""
    query = select(func.count()).select_from(arena_vote).where(arena_vote.c.outcome.is_not(None))
    return int(connection.execute(query).scalar_one())


def count_abandoned(connection: Connection) -> int:
    """Return the number of battles that hid the models' names and were abandoned.

    Their replies were shown, but the person started another battle without voting.
    """
    battle = arena_battle.c
    is_abandoned = and_(battle.state == "abandoned", battle.kind.in_(HIDDEN))
    query = select(func.count()).select_from(arena_battle).where(is_abandoned)
    return int(connection.execute(query).scalar_one())


def exported_votes(connection: Connection, *, texts: bool) -> list[Battle]:
    """Return all votes with an outcome, sorted by time; with questions and replies if `texts` is true.

    Several judge models may vote on the same battle. So the id of a judge's vote is `BATTLE/JUDGE`,
    and that of a person's vote is the id of the battle.
    """
    names = (*COLUMNS_OF_VOTE, *COLUMNS_OF_TEXT) if texts else COLUMNS_OF_VOTE
    columns = [arena_battle.c[name] for name in names]
    query = (
        select(*columns, *_VOTE)
        .join(arena_vote, arena_vote.c.battle_id == arena_battle.c.id)
        .where(arena_vote.c.outcome.is_not(None))
        .order_by(arena_vote.c.cast, arena_battle.c.id, arena_vote.c.judge)
    )
    return [_battle_of_row(row, texts) for row in connection.execute(query)]


def conversations(connection: Connection) -> Iterator[dict[str, Any]]:
    """Yield the battles whose voters agreed to their publication, sorted by time of the vote.

    Each is a dict with the models, the questions with both replies, and the vote. Battles of people
    who had their data erased are left out.
    """
    battle = arena_battle.c
    columns = ("id", "kind", "left", "left_version", "right", "right_version", "category", "images")
    query = (
        select(*(battle[name] for name in columns), battle.turns, arena_vote.c.outcome)
        .add_columns(arena_vote.c.cast, arena_vote.c.detail)
        .join(arena_vote, arena_vote.c.battle_id == battle.id)
        .where(arena_vote.c.detail["consent"].as_boolean().is_(True))
        .order_by(arena_vote.c.cast, battle.id)
    )
    for row in connection.execute(query):
        if not row.turns:
            continue
        facts = {name: getattr(row, name) for name in columns}
        yield {
            **facts,
            "language": row.detail.get("language", ""),
            "time": row.cast.timestamp(),
            "outcome": row.outcome,
            "turns": row.turns,
        }


def votes_of_pairs(battles: list[Battle]) -> Mapping[frozenset[str], int]:
    """Return the number of votes by people on each pair of models.

    Each pair is counted under two keys: the plain names, and the names with versions
    (`NAME@VERSION`). Only battles that hid the names count, and no honeypots (prepared battles that
    test voters).
    """
    counts = Counter[frozenset[str]]()
    for battle in battles:
        if battle.voter_kind == "person" and battle.anonymous and not battle.honeypot:
            counts.update(set(_model_pairs(battle)))
    return counts


TRUSTED_BY = ("trust", "network", "question", "leak", "honeypot")
_VOTE = tuple(
    arena_vote.c[name]
    for name in ("voter_kind", "judge", "voter", "outcome", "cast", "detail", *TRUSTED_BY)
)


def _model_pairs(battle: Battle) -> Iterator[frozenset[str]]:
    """Yield the two models of a battle as an unordered pair: by name, and by name with version."""
    yield frozenset((battle.left, battle.right))
    left = f"{battle.left}@{battle.left_version}"
    right = f"{battle.right}@{battle.right_version}"
    yield frozenset((left, right))


def _battle_of_row(row: Row[*tuple[Any, ...]], texts: bool) -> Battle:
    """Convert a vote's database row to a battle of a log; `texts` says whether questions and replies are included."""
    # A battle has one vote by a person but may have several by judges, so their ids contain the judge.
    vote_id = f"{row.id}/{row.judge}" if row.judge else row.id
    honeypot = row.honeypot
    # The origin of a honeypot names its better side. A vote for the other side is stored as failed.
    if not honeypot and "better" in row.origin:
        honeypot = "passed"
    further_fields = dict(row.detail.get("style", {}))
    if texts:
        further_fields |= _battle_texts(row)
    return Battle(
        id=vote_id,
        left=row.left,
        right=row.right,
        outcome=row.outcome,
        time=row.cast.timestamp(),
        left_version=row.left_version,
        right_version=row.right_version,
        category=row.category,
        language=row.detail.get("language", ""),
        propensity=row.propensity,
        voter=row.voter,
        voter_kind=row.voter_kind,
        anonymous=row.kind in HIDDEN,
        trust=row.trust,
        network=row.network,
        question=row.question,
        leak=row.leak,
        honeypot=honeypot or "",
        **further_fields,
    )


def _battle_texts(row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
    """Return the text fields of a battle: its questions one after the other, the replies of each side, its images."""
    said: dict[str, Any] = {
        "prompt": "\n\n".join(turn["prompt"] for turn in row.turns),
        "image": ",".join(row.images) or None,
    }
    for side in ("left", "right"):
        replies = [turn[side]["text"] for turn in row.turns if turn.get(side)]
        said[f"{side}_reply"] = "\n\n".join(replies)
    return said


ORDERS = 50
"""Other orders of the votes in which Elo is computed again."""
JOB = "rate arena"


class EloStanding(Struct, frozen=True):
    """The Elo rating of a model, and the range of ratings that other orders of the same votes give."""

    model: str
    rating: float
    lowest: float
    """Lowest and highest rating from the same votes in other orders."""
    highest: float


class Standing(Struct, frozen=True):
    """Everything that the page of ratings shows."""

    created_at: datetime = field(name="made")
    votes: int
    """Number of votes with an outcome, by people and by judges."""
    rating: ArenaRating | None = None
    """Bradley-Terry ratings from people's votes on battles that hid the models' names."""
    elo: tuple[EloStanding, ...] = ()
    pairs: tuple[PairRecord, ...] = ()
    judged: ArenaRating | None = None
    """The same from the votes of judge models only."""
    notes: tuple[str, ...] = ()
    under_prior: tuple[ModelRating, ...] = ()
    """All models of people's votes by `provisional_ratings`; the page shows those that are not settled."""
    ranked_by: Literal["all", "accounts"] = "all"
    """Whether `rating` is from all people's votes, or from those of people with accounts."""
    beside: ArenaRating | None = None
    """The ratings by the other choice for `ranked_by`."""
    shares: tuple[TrustShare, ...] = ()
    """For each trust class of voters, its share of the counted votes and of their weight."""
    left_out_votes: Mapping[str, int] = field(default_factory=dict[str, int], name="left_out")
    """Votes that do not count in `rating`, by reason."""
    slices: tuple[RatingSlice, ...] = ()
    """Ratings at equal style, by category and by language."""

    @property
    def votes_of_people(self) -> int:
        """Return the number of votes that count in `rating`."""
        return sum(share.votes for share in self.shares)

    @property
    def ranked_models(self) -> tuple[ModelRating, ...]:
        """Return the models that enough people have voted on, ranked within each comparable group.

        The result is empty if there is no rating.
        """
        return ranked_when_settled(self.rating.models) if self.rating else ()

    @property
    def provisional(self) -> tuple[ModelRating, ...]:
        """Return the ratings of all other models, which have no rank yet."""
        names = {row.model for row in self.ranked_models}
        return tuple(row for row in self.under_prior if row.model not in names)

    @property
    def groups(self) -> int:
        """Return the number of groups among the ranked models. Each group has a rating of its own."""
        return len({row.group for row in self.ranked_models})


def standing_of(
    battles: list[Battle],
    settings: RatingSettings,
    least: int = 1,
    ranked_by: Literal["all", "accounts"] = "all",
) -> Standing:
    """Return the ratings of some votes: by people, by people with accounts, and by judge models.

    Without enough votes, or if no two models can be compared, the standing has notes that say so in place of ratings.

    Args:
        battles: The battles that were voted on.
        settings: How votes are rated.
        least: Smallest number of votes for which ratings are computed.
        ranked_by: Whether models are ranked by all votes, or by those of people with accounts. The ratings by the other
            selection are stored as `beside`.
    """
    now = utc_now()
    n_votes = len(battles)
    if n_votes < max(least, 1):
        note = f"ratings start at {least:,} votes" if least > 1 else "no votes yet"
        return Standing(now, n_votes, notes=(note,))

    log = vote_log(battles)
    judged = None
    notes: tuple[str, ...] = ()
    if any(battle.voter_kind == "judge" for battle in battles):
        judged = _rate_if_comparable(
            log, msgspec.structs.replace(settings, voters="judge", trust=None)
        )
        if not judged:
            notes = ("by judges: no two models can be compared yet",)

    settings_for_accounts = msgspec.structs.replace(settings, classes=("account",))
    if ranked_by == "accounts":
        ranking_settings = settings_for_accounts
        other_settings = settings
    else:
        ranking_settings = settings
        other_settings = settings_for_accounts
    try:
        counted = counted_votes(log, ranking_settings)
    except DataError as error:
        return Standing(
            now,
            n_votes,
            judged=judged,
            notes=(f"by people: {error}", *notes),
            ranked_by=ranked_by,
            beside=_rate_if_comparable(log, other_settings),
        )

    # Elo and counts of wins cannot weigh votes. So a network's votes above its admitted share are left out of them.
    votes_within_shares = within_shares(counted, settings.trust)
    ratings = elo_ratings(votes_within_shares, settings)
    rng = np.random.default_rng(settings.seed)
    ratings_by_order = shuffled_elo(votes_within_shares, settings, ORDERS, rng)
    lowest = ratings_by_order.min(axis=0)
    highest = ratings_by_order.max(axis=0)
    elo = []
    for model, rating, low, high in zip(
        votes_within_shares.models, ratings, lowest, highest, strict=True
    ):
        elo.append(EloStanding(model, float(rating), float(low), float(high)))
    return Standing(
        now,
        n_votes,
        _rate_if_comparable(log, ranking_settings),
        tuple(elo),
        win_rates(votes_within_shares),
        judged,
        notes,
        provisional_ratings(counted, settings),
        ranked_by,
        _rate_if_comparable(log, other_settings),
        trust_shares(counted),
        counted.left_out_votes,
        rated_slices(battles, ranking_settings),
    )


def rating_settings(services: Services) -> RatingSettings:
    """Return the settings by which a server's votes are rated.

    They are the operator's. If anyone may register an account, accounts are not trusted more than anonymous visitors:
    all votes by accounts from one network then count as one voter's, too.
    """
    settings = arena_of(services).settings
    trust = settings.trust
    if services.configuration.registration == "open" and "account" not in trust.networked:
        networked = (*trust.networked, "account")
        trust = msgspec.structs.replace(trust, networked=networked)
    return RatingSettings(resamples=settings.resamples, trust=trust)


def latest_standing(connection: Connection) -> Standing | None:
    """Return the standing that the rating job computed last; None if it has not run yet."""
    query = select(arena_rating.c.standing).where(arena_rating.c.is_frozen.is_(False)).limit(1)
    content = connection.execute(query).scalar()
    return msgspec.convert(content, Standing) if content else None


def frozen_ratings(connection: Connection) -> list[dict[str, Any]]:
    """Return the frozen ratings, the latest first, each as a dict.

    Its keys are `id`, `made`, `votes` and `is_ready`; the last is False until the rating job has
    written the files of this rating.
    """
    query = select(
        arena_rating.c.id,
        arena_rating.c.made,
        arena_rating.c.votes,
        arena_rating.c.snapshot.is_not(None),
    ).where(arena_rating.c.is_frozen)
    keys = ("id", "made", "votes", "is_ready")
    rows = connection.execute(query.order_by(arena_rating.c.id.desc())).all()
    return [dict(zip(keys, row, strict=True)) for row in rows]


def frozen_file(connection: Connection, number: int, column: str) -> bytes | None:
    """Return a file of a frozen rating: its `snapshot` (JSON) or the `log` of votes (Parquet).

    None is returned if there is no such rating, or if its files are not written yet.
    """
    query = select(arena_rating.c[column]).where(
        arena_rating.c.id == number, arena_rating.c.is_frozen
    )
    content: bytes | None = connection.execute(query).scalar()
    return content


def ask_to_freeze(connection: Connection) -> None:
    """Store a request to freeze the rating, which the rating job carries out the next time that it runs."""
    connection.execute(
        insert(arena_rating).values(made=utc_now(), is_frozen=True, votes=0, standing={})
    )


async def rate_arena(services: Services) -> None:
    """Rate the models of the arena from all its votes, and store the rating as the current one.

    Requests to freeze the rating are then carried out. Nothing is done if there are neither new votes nor requests.
    """
    votes, last_votes, waiting_ids = await services.database.read(_read_rating_work)
    if votes == last_votes and not waiting_ids:
        return
    arena = arena_of(services)
    battles = await services.database.read(exported_votes, texts=False)
    arena.pair_votes = votes_of_pairs(battles)
    settings = rating_settings(services)
    arena_settings = arena.settings
    standing = await asyncio.to_thread(
        standing_of, battles, settings, arena_settings.least_votes, arena_settings.ranked_by
    )
    await services.database.write(_replace_current, standing)
    if waiting_ids:
        files = await asyncio.to_thread(_frozen_files, standing, battles)
        await services.database.write(_freeze, waiting_ids, standing, files)


def _rate_if_comparable(log: VoteLog, settings: RatingSettings) -> ArenaRating | None:
    """Return the rating of the votes in a log; None if no two models can be compared yet."""
    try:
        return rate_votes(log, settings)
    except DataError:
        return None


def _read_rating_work(connection: Connection) -> tuple[int, int | None, list[int]]:
    """Return the number of votes, the number at the last rating (or None), and the ids of ratings to be frozen."""
    is_current = arena_rating.c.is_frozen.is_(False)
    query = select(func.max(arena_rating.c.votes)).where(is_current)
    last_votes = connection.execute(query).scalar()
    is_waiting = and_(arena_rating.c.is_frozen, arena_rating.c.snapshot.is_(None))
    waiting_ids = connection.execute(select(arena_rating.c.id).where(is_waiting)).scalars()
    return count_votes(connection), last_votes, list(waiting_ids)


def _replace_current(connection: Connection, standing: Standing) -> None:
    """Replace the stored current standing, which is not frozen, by this one."""
    connection.execute(delete(arena_rating).where(arena_rating.c.is_frozen.is_(False)))
    connection.execute(
        insert(arena_rating).values(
            made=standing.created_at,
            is_frozen=False,
            votes=standing.votes,
            standing=msgspec.to_builtins(standing),
        )
    )


def _frozen_files(standing: Standing, battles: list[Battle]) -> tuple[bytes, bytes] | None:
    """Return the files of a frozen rating: its snapshot (JSON), and its votes as Parquet.

    None is returned if no models could be rated.
    """
    if standing.rating is None:
        return None
    file = io.BytesIO()
    battle_table(battles).write_parquet(file)
    return encode_snapshot(standing.rating), file.getvalue()


def _freeze(
    connection: Connection,
    waiting: list[int],
    standing: Standing,
    files: tuple[bytes, bytes] | None,
) -> None:
    """Store a frozen rating for each request to freeze it.

    Args:
        connection: The transaction to write in.
        waiting: Ids of the requests.
        standing: The rating.
        files: Its snapshot and the votes behind it. None if no model could be rated: then the requests are deleted.
    """
    is_waiting = arena_rating.c.id.in_(waiting)
    if files is None:
        connection.execute(delete(arena_rating).where(is_waiting))
        return
    snapshot, log = files
    connection.execute(
        update(arena_rating)
        .where(is_waiting)
        .values(
            made=standing.created_at,
            votes=standing.votes,
            standing=msgspec.to_builtins(standing),
            snapshot=snapshot,
            log=log,
        )
    )
