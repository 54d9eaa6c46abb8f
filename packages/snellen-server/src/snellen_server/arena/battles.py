"""A battle as a state machine, as functions of a database connection.

    created ──both replied──▶ answered ──vote──▶ voted
       │  ▲                      │ │
       │  └────next question─────┘ └──another battle begun──▶ abandoned
       └──either side failed, or another battle begun──▶ voided

Each step is one conditional update: of two that come at once, one finds the battle as it expects it, and the other is
refused. A vote takes the token that came with the replies, which is worth nothing afterwards; names are shown in state
`voted` only, so there is no vote after them. That a battle has but one vote of a person is also the table's key. The
token is signed, not drawn, so that whoever loads the page again gets the one that the battle has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import Struct, to_builtins
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Row,
    String,
    Table,
    bindparam,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import ReturningUpdate

from snellen_server.arena_ratings.log import Outcome
from snellen_server.hosting.callers import Caller
from snellen_server.hosting.credentials import Signer, new_id, token_digest
from snellen_server.hosting.database import ConflictError, MissingError
from snellen_server.hosting.tables import METADATA, BigId, UtcDateTime, utc_now

arena_battle = Table(
    "arena_battle",
    METADATA,
    Column("id", String(24), primary_key=True),
    Column("kind", String(12), nullable=False),
    Column("state", String(12), nullable=False),
    Column("account_id", String(24), index=True),
    Column("visitor", String(24), index=True),
    Column("token_digest", String(64)),
    Column("left", String(200), nullable=False),
    Column("left_version", String(24), nullable=False),
    Column("right", String(200), nullable=False),
    Column("right_version", String(24), nullable=False),
    Column("sampling", String(12), nullable=False),
    Column("propensity", Float),
    Column("category", String(200), nullable=False),
    Column("origin", JSON, nullable=False),
    Column("image", String(64)),
    Column("turn_count", Integer, nullable=False),
    Column("turns", JSON, nullable=False),
    Column("fault", String(300), nullable=False),
    Column("created", UtcDateTime(), nullable=False),
    Column("changed", UtcDateTime(), nullable=False),
    Index("ix_arena_battle_state_changed", "state", "changed"),
)
arena_vote = Table(
    "arena_vote",
    METADATA,
    Column("battle_id", ForeignKey("arena_battle.id", ondelete="CASCADE"), nullable=False),
    Column("voter_kind", String(8), nullable=False),
    Column("judge", String(100), nullable=False),
    Column("voter", String(100)),
    Column("outcome", String(8)),
    Column("cast", UtcDateTime(), nullable=False, index=True),
    Column("detail", JSON, nullable=False),
    # One vote of a person a battle, and one of each judge.
    PrimaryKeyConstraint("battle_id", "voter_kind", "judge"),
)
arena_voter = Table(
    "arena_voter",
    METADATA,
    Column("actor", String(80), primary_key=True),
    Column("pseudonym", String(24), nullable=False, unique=True),
)
arena_rating = Table(
    "arena_rating",
    METADATA,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("made", UtcDateTime(), nullable=False, index=True),
    Column("is_frozen", Boolean, nullable=False),
    Column("votes", Integer, nullable=False),
    Column("standing", JSON, nullable=False),
    Column("snapshot", LargeBinary),
    Column("log", LargeBinary),
)


BattleKind = Literal["anonymous", "named", "chat", "offline"]
BattleState = Literal["created", "answered", "voted", "voided", "abandoned"]
Side = Literal["left", "right"]
HIDDEN: tuple[BattleKind, ...] = ("anonymous", "offline")
"""Kinds whose models' names are hidden until the vote."""
VOTED_ON: tuple[BattleKind, ...] = ("anonymous", "offline", "named")
VOTED_SHOWN_SECONDS = 3600.0
"""How long a page that is loaded again shows a battle that was voted on."""


class SideReply(Struct, frozen=True, omit_defaults=True):
    """What one model replied, and how."""

    text: str
    seconds: float | None = None
    """How long it took, from when it was begun."""
    waited: float | None = None
    """How long the question waited for the model before."""
    finish: str | None = None


class BattleTurn(Struct, frozen=True, omit_defaults=True):
    """One question with both replies; a chat has but a left one."""

    prompt: str
    left: SideReply | None = None
    right: SideReply | None = None


@dataclass(frozen=True)
class Contender:
    """A model as a battle records it."""

    name: str
    version: str


@dataclass(frozen=True)
class NewBattle:
    """A battle that is about to begin."""

    kind: BattleKind
    left: Contender
    right: Contender
    turn: BattleTurn
    image: str | None
    sampling: str = "chosen"
    propensity: float | None = None
    category: str = ""
    origin: dict[str, str] = field(default_factory=dict)
    """Of an offline battle: its benchmark, sample and runs."""


def owned_by(caller: Caller) -> ColumnElement[bool]:
    """The caller's battles."""
    if caller.account:
        return arena_battle.c.account_id == caller.account.id
    return (arena_battle.c.visitor == caller.visitor) & arena_battle.c.account_id.is_(None)


def create_battle(connection: Connection, caller: Caller, new: NewBattle) -> str:
    """The id of a battle in state `created`."""
    now, name = utc_now(), new_id()
    connection.execute(
        insert(arena_battle).values(
            id=name,
            kind=new.kind,
            state="created",
            account_id=caller.account.id if caller.account else None,
            visitor=None if caller.account else caller.visitor,
            left=new.left.name,
            left_version=new.left.version,
            right=new.right.name,
            right_version=new.right.version,
            sampling=new.sampling,
            propensity=new.propensity,
            category=new.category,
            origin=new.origin,
            image=new.image,
            turn_count=1,
            turns=[to_builtins(new.turn)],
            fault="",
            created=now,
            changed=now,
        )
    )
    return name


def find_battle(connection: Connection, caller: Caller, name: str) -> Row[Any]:
    """A battle of the caller's. Raises MissingError."""
    chosen = select(arena_battle).where(arena_battle.c.id == name, owned_by(caller))
    row = connection.execute(chosen).one_or_none()
    if row is None:
        raise MissingError("there is no such battle of yours")
    return row


def current_battle(connection: Connection, caller: Caller, kind: BattleKind) -> Row[Any] | None:
    """The battle of this kind that the caller began last: while it is open, and for a while after the vote."""
    chosen = select(arena_battle).where(owned_by(caller), arena_battle.c.kind == kind)
    battle = connection.execute(
        chosen.order_by(arena_battle.c.created.desc()).limit(1)
    ).one_or_none()
    if battle is None or battle.state in ("voided", "abandoned"):
        return None
    is_past = battle.state == "voted" and battle.changed < waiting_since(VOTED_SHOWN_SECONDS)
    return None if is_past else battle


def leave_battles(connection: Connection, caller: Caller, kind: BattleKind) -> int:
    """End the open battles of this kind, since another is begun; how many had their replies and so are abandoned.

    One whose replies still come is void. Chats, which nobody votes on, stay as they are.
    """
    if kind not in VOTED_ON:
        return 0
    own_battles = update(arena_battle).where(owned_by(caller), arena_battle.c.kind == kind)
    abandonment = {"state": "abandoned", "token_digest": None, "changed": utc_now()}
    abandoned = connection.execute(
        own_battles.where(arena_battle.c.state == "answered").values(abandonment)
    ).rowcount
    void = {"changed": utc_now(), **_voided("another battle was begun")}
    connection.execute(own_battles.where(arena_battle.c.state == "created").values(void))
    return abandoned


def check_further(battle: Row[Any], most: int) -> None:
    """Raise ConflictError for a battle that has no further question, whatever its state."""
    if battle.kind == "offline":
        raise ConflictError("these replies were given earlier; nobody is there to ask further")
    if battle.turn_count >= most:
        raise ConflictError(f"a battle has at most {most} questions; vote, or begin another")


def begin_turn(
    connection: Connection, caller: Caller, name: str, prompt: str, most: int
) -> Row[Any]:
    """Put the next question of an answered battle, which takes its token away; the battle as it is then.

    Raises MissingError, ConflictError.
    """
    battle = find_battle(connection, caller, name)
    check_further(battle, most)
    turns = [*battle.turns, to_builtins(BattleTurn(prompt))]
    changes = {"turns": turns, "turn_count": len(turns), "state": "created", "token_digest": None}
    if not _change(connection, name, battle.turn_count, "answered", changes):
        raise ConflictError(_not_answered(battle.state))
    return find_battle(connection, caller, name)


def vote_token(signer: Signer, name: str, turn_count: int) -> str:
    """The token that votes on a battle after this many turns."""
    return signer.signature("arena vote", f"{name}\0{turn_count}")


def finish_turn(
    connection: Connection, signer: Signer, name: str, turns: Sequence[BattleTurn]
) -> str | None:
    """Record the replies to the last of `turns`; the token with which one may vote.

    None when the battle was voided meanwhile.
    """
    token = vote_token(signer, name, len(turns))
    changes = {
        "turns": to_builtins(turns),
        "state": "answered",
        "token_digest": token_digest(token),
    }
    return token if _change(connection, name, len(turns), "created", changes) else None


def void_battle(connection: Connection, name: str, turns: Sequence[BattleTurn], fault: str) -> None:
    """End a battle in which a side failed; what was replied stays recorded."""
    _change(
        connection, name, len(turns), "created", {"turns": to_builtins(turns), **_voided(fault)}
    )


def void_abandoned(connection: Connection, before: datetime) -> int:
    """How many battles were voided whose replies should have come long ago: their server ended."""
    chosen = update(arena_battle).where(
        arena_battle.c.state == "created", arena_battle.c.changed < before
    )
    return connection.execute(
        chosen.values(changed=utc_now(), **_voided("the server ended"))
    ).rowcount


def _taking(is_owned: ColumnElement[bool]) -> ReturningUpdate[Any]:
    return (
        update(arena_battle)
        .where(
            arena_battle.c.id == bindparam("name"),
            arena_battle.c.state == "answered",
            arena_battle.c.token_digest == bindparam("token"),
            arena_battle.c.kind.in_(VOTED_ON),
            is_owned,
        )
        .values(state="voted", token_digest=None, changed=bindparam("now"))
        .returning(arena_battle)
    )


# What every vote executes is put together once: that takes as long as the database does.
_TAKEN = {
    True: _taking(arena_battle.c.account_id == bindparam("owner")),
    False: _taking(
        (arena_battle.c.visitor == bindparam("owner")) & arena_battle.c.account_id.is_(None)
    ),
}
"""Takes the token of a battle, by whether its owner has an account."""
_VOTE = insert(arena_vote)
_KNOWN = select(arena_voter.c.pseudonym).where(arena_voter.c.actor == bindparam("known"))


def cast_vote(
    connection: Connection, caller: Caller, name: str, token: str, outcome: Outcome
) -> Row[Any]:
    """The battle with its vote, which is recorded: from now on names may be shown.

    Raises MissingError, and ConflictError for a battle in another state, a token that is not the last one,
    and a chat.
    """
    now, owner = utc_now(), caller.account.id if caller.account else caller.visitor
    parameters = {"name": name, "token": token_digest(token), "owner": owner, "now": now}
    battle = connection.execute(_TAKEN[caller.account is not None], parameters).one_or_none()
    if battle is None:
        raise ConflictError(_not_votable(find_battle(connection, caller, name)))
    vote: dict[str, Any] = {
        "battle_id": name,
        "voter_kind": "person",
        "judge": "",
        "voter": _pseudonym(connection, caller.actor),
        "outcome": outcome,
        "cast": now,
        "detail": {},
    }
    try:
        connection.execute(_VOTE, vote)
    except IntegrityError:
        raise ConflictError(_not_answered("voted")) from None
    return battle


def waiting_since(seconds: float) -> datetime:
    """The time this many seconds ago."""
    return utc_now() - timedelta(seconds=seconds)


def _change(
    connection: Connection, name: str, turns: int, state: BattleState, changes: dict[str, Any]
) -> bool:
    """Whether the battle was in this state at this turn, and was changed."""
    chosen = update(arena_battle).where(
        arena_battle.c.id == name, arena_battle.c.state == state, arena_battle.c.turn_count == turns
    )
    return bool(connection.execute(chosen.values(changed=utc_now(), **changes)).rowcount)


def _voided(fault: str) -> dict[str, Any]:
    return {"state": "voided", "fault": fault[:300], "token_digest": None}


def _pseudonym(connection: Connection, actor: str) -> str:
    """By what the log of votes knows a person: a random name. Whose it is stands elsewhere, and can be forgotten."""
    if pseudonym := connection.execute(_KNOWN, {"known": actor}).scalar():
        return str(pseudonym)
    new_pseudonym = new_id()
    try:
        with connection.begin_nested():
            connection.execute(insert(arena_voter).values(actor=actor, pseudonym=new_pseudonym))
    except IntegrityError:
        return str(connection.execute(_KNOWN, {"known": actor}).scalar_one())
    return new_pseudonym


def _not_votable(battle: Row[Any]) -> str:
    if battle.kind == "chat":
        return "a chat with one model has no vote"
    if battle.state == "answered":
        return (
            "this vote was for earlier replies; load the page again and vote on what is there now"
        )
    return _not_answered(battle.state)


def _not_answered(state: str) -> str:
    reasons = {
        "created": "the replies have not all come yet; load the page again",
        "voted": "this battle has its vote already",
        "voided": "this battle is void: a model failed, or you have begun another; begin a new one",
        "abandoned": "you have begun another battle since, so this one has no vote",
    }
    return reasons.get(state, "another question was asked at the same time")
