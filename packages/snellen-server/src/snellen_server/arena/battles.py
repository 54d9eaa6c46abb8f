"""A battle as a state machine, as functions of a database connection.

    created ──both replied──▶ answered ──vote──▶ voted
       │  ▲                      │ │
       │  └────next question─────┘ └──another battle begun──▶ abandoned
       └──either side failed, or another battle begun──▶ voided

Each step is one conditional update: if two arrive at once, the second finds the battle in another state and is
rejected. A vote consumes the token that was issued with the replies. Names are shown only in state `voted`, so nobody
can vote after seeing them. The primary key of the table also allows a battle only one vote by a person. The token is a
signature and not random, so that a reloaded page gets the same token again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    and_,
    bindparam,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import ReturningUpdate

from snellen_server.arena_ratings.log import Outcome, Trust
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
    Column("images", JSON, nullable=False),
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
    Column("trust", String(12), nullable=False, server_default=""),
    Column("network", String(24)),
    Column("question", String(24)),
    Column("leak", String(24), nullable=False, server_default=""),
    Column("honeypot", String(8), nullable=False, server_default=""),
    # A battle has one vote by a person, and one by each judge.
    PrimaryKeyConstraint("battle_id", "voter_kind", "judge"),
)
arena_voter = Table(
    "arena_voter",
    METADATA,
    Column("actor", String(80), primary_key=True),
    Column("pseudonym", String(24), nullable=False, unique=True),
    Column("invitation", String(64)),
)
arena_invitation = Table(
    "arena_invitation",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("title", String(100), nullable=False),
    Column("seats", Integer, nullable=False),
    Column("taken", Integer, nullable=False),
    Column("created", UtcDateTime(), nullable=False),
    Column("expires", UtcDateTime(), nullable=False),
)
arena_network_key = Table(
    "arena_network_key",
    METADATA,
    Column("period", Integer, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, nullable=False),
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
"""Time after a vote, in seconds, for which a reloaded page still shows the battle."""


class SideReply(Struct, frozen=True, omit_defaults=True):
    """The reply of one model, with its times."""

    text: str
    seconds: float | None = None
    """Seconds from the start of the request to the end of the reply."""
    waited: float | None = None
    """Seconds for which the question waited in the model's queue before."""
    finish: str | None = None


class BattleTurn(Struct, frozen=True, omit_defaults=True):
    """One question with both replies; a chat has only a left one."""

    prompt: str
    left: SideReply | None = None
    right: SideReply | None = None


@dataclass(frozen=True)
class Contender:
    """The name and version of a model in a battle."""

    name: str
    version: str


@dataclass(frozen=True)
class VoteFacts:
    """What is recorded about a vote, so that a rating can decide whether and how much it counts."""

    network: str | None = None
    """Pseudonym of the voter's network, which expires (`arena.voters`)."""
    question: str | None = None
    """Keyed digest of question and images."""
    leak: str = ""
    """How a model revealed its identity (`arena.leaks`); empty if none did."""
    detail: dict[str, Any] = field(default_factory=dict)
    """The `language` of the question, the `style` of both replies, and whether the voter gave `consent`."""


@dataclass(frozen=True)
class NewBattle:
    """A battle that is not stored yet."""

    kind: BattleKind
    left: Contender
    right: Contender
    turn: BattleTurn
    images: tuple[str, ...]
    """Digests of the images of the first question, in order."""
    sampling: str = "chosen"
    propensity: float | None = None
    category: str = ""
    origin: dict[str, str] = field(default_factory=dict)
    """For an offline battle its benchmark, sample and runs; for a honeypot the `better` side."""


def owned_by(caller: Caller) -> ColumnElement[bool]:
    """Return the SQL condition for battles of the caller.

    They belong to the caller's account or, for a caller without one, to the visitor.
    """
    if caller.account:
        return arena_battle.c.account_id == caller.account.id
    return (arena_battle.c.visitor == caller.visitor) & arena_battle.c.account_id.is_(None)


def create_battle(connection: Connection, caller: Caller, new: NewBattle) -> str:
    """Create a battle in state `created`, and return its id."""
    now = utc_now()
    name = new_id()
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
            images=list(new.images),
            turn_count=1,
            turns=[to_builtins(new.turn)],
            fault="",
            created=now,
            changed=now,
        )
    )
    return name


def find_battle(connection: Connection, caller: Caller, name: str) -> Row[Any]:
    """Return a battle of the caller. Raises MissingError if it does not exist or is not the caller's."""
    query = select(arena_battle).where(arena_battle.c.id == name, owned_by(caller))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise MissingError("this battle does not exist or is not yours")
    return row


def current_battle(connection: Connection, caller: Caller, kind: BattleKind) -> Row[Any] | None:
    """Return the caller's latest battle of a kind, to show it again when the page is reloaded.

    None is returned if there is none, if it is void or abandoned, or if the vote was cast more than
    `VOTED_SHOWN_SECONDS` seconds ago.
    """
    query = select(arena_battle).where(owned_by(caller), arena_battle.c.kind == kind)
    latest = query.order_by(arena_battle.c.created.desc()).limit(1)
    battle = connection.execute(latest).one_or_none()
    if battle is None or battle.state in ("voided", "abandoned"):
        return None
    if battle.state == "voted" and battle.changed < waiting_since(VOTED_SHOWN_SECONDS):
        return None
    return battle


def leave_battles(connection: Connection, caller: Caller, kind: BattleKind) -> int:
    """End the caller's open battles of a kind, because the caller begins another.

    A battle with both replies is abandoned; one whose replies are still being streamed is void. Chats have no votes and
    are left unchanged.

    Returns:
        The number of abandoned battles.
    """
    if kind not in VOTED_ON:
        return 0
    callers_battles = update(arena_battle).where(owned_by(caller), arena_battle.c.kind == kind)
    abandon = callers_battles.where(arena_battle.c.state == "answered").values(
        state="abandoned", token_digest=None, changed=utc_now()
    )
    make_void = callers_battles.where(arena_battle.c.state == "created").values(
        changed=utc_now(), **_voided("another battle was started")
    )
    abandoned = connection.execute(abandon).rowcount
    connection.execute(make_void)
    return abandoned


def check_further(battle: Row[Any], max_turns: int) -> None:
    """Raise ConflictError if a battle can never have another question.

    That is so if its replies come from earlier runs, or if it has `max_turns` questions.
    """
    if battle.kind == "offline":
        raise ConflictError(
            "these replies are from earlier runs; no model is available for further questions"
        )
    if battle.turn_count >= max_turns:
        raise ConflictError(
            f"a battle has at most {max_turns} questions; vote, or start another battle"
        )


def begin_turn(
    connection: Connection, caller: Caller, name: str, prompt: str, max_turns: int
) -> Row[Any]:
    """Add the next question to an answered battle and invalidate its token; return the updated battle.

    Raises:
        MissingError: If the battle does not exist or is not the caller's.
        ConflictError: If it is in another state, or has `max_turns` questions already.
    """
    battle = find_battle(connection, caller, name)
    check_further(battle, max_turns)
    turns = [*battle.turns, to_builtins(BattleTurn(prompt))]
    changes = {"turns": turns, "turn_count": len(turns), "state": "created", "token_digest": None}
    if not _update_unless_changed(connection, name, battle.turn_count, "answered", changes):
        raise ConflictError(_not_answered(battle.state))
    return find_battle(connection, caller, name)


def vote_token(signer: Signer, name: str, turn_count: int) -> str:
    """Return the token that is needed to vote on a battle after its first `turn_count` questions."""
    return signer.signature("arena vote", f"{name}\0{turn_count}")


def finish_turn(
    connection: Connection, signer: Signer, name: str, turns: Sequence[BattleTurn]
) -> str | None:
    """Store the replies to the last question of a battle, and return the token to vote with.

    None is returned, and nothing stored, if the battle has become void in the meantime.
    """
    token = vote_token(signer, name, len(turns))
    changes = {
        "turns": to_builtins(turns),
        "state": "answered",
        "token_digest": token_digest(token),
    }
    is_recorded = _update_unless_changed(connection, name, len(turns), "created", changes)
    return token if is_recorded else None


def void_battle(connection: Connection, name: str, turns: Sequence[BattleTurn], fault: str) -> None:
    """End a battle in which a model failed; the other model's reply remains recorded."""
    changes = {"turns": to_builtins(turns), **_voided(fault)}
    _update_unless_changed(connection, name, len(turns), "created", changes)


def void_abandoned(connection: Connection, before: datetime) -> int:
    """Make battles void that have waited for replies since before a time, and return their number.

    The server process that asked the models has stopped, so the replies will never come.
    """
    statement = update(arena_battle).where(
        arena_battle.c.state == "created", arena_battle.c.changed < before
    )
    return connection.execute(
        statement.values(changed=utc_now(), **_voided("the server stopped"))
    ).rowcount


def _consume_token(is_owned: ColumnElement[bool]) -> ReturningUpdate[Any]:
    """Return the statement that consumes the token of an answered battle and sets it to `voted`."""
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


# Statements of every vote are built once: building one takes as long as executing it.
_CONSUME_TOKEN_OF = {
    True: _consume_token(arena_battle.c.account_id == bindparam("owner")),
    False: _consume_token(
        (arena_battle.c.visitor == bindparam("owner")) & arena_battle.c.account_id.is_(None)
    ),
}
"""The statement that consumes the token of a battle whose owner has an account (True) or is a visitor (False)."""
_VOTE = insert(arena_vote)
_KNOWN = select(arena_voter.c.pseudonym, arena_voter.c.invitation).where(
    arena_voter.c.actor == bindparam("known")
)


def cast_vote(
    connection: Connection,
    caller: Caller,
    name: str,
    token: str,
    outcome: Outcome,
    facts_of: Callable[[Row[Any]], VoteFacts] = lambda battle: VoteFacts(),
) -> Row[Any]:
    """Record a vote, and return the battle. The names of its models may be shown from now on.

    Args:
        connection: A database connection in a transaction.
        caller: The voter, who must own the battle.
        name: Id of the battle.
        token: Token from `finish_turn`.
        outcome: The vote.
        facts_of: Returns further facts about the vote to record, from the battle.

    Raises:
        MissingError: If the battle does not exist or is not the caller's.
        ConflictError: If the battle is in another state or a chat, or the token is not the latest.
    """
    now = utc_now()
    owner = caller.account.id if caller.account else caller.visitor
    parameters = {"name": name, "token": token_digest(token), "owner": owner, "now": now}
    consume_token = _CONSUME_TOKEN_OF[caller.account is not None]
    battle = connection.execute(consume_token, parameters).one_or_none()
    if battle is None:
        raise ConflictError(_not_votable(find_battle(connection, caller, name)))
    facts = facts_of(battle)
    pseudonym, invitation = _voter(connection, caller.actor)
    trust: Trust = "anonymous"
    if caller.account:
        trust = "account"
    elif invitation:
        trust = "invited"
    honeypot = ""
    if "better" in battle.origin:  # a honeypot, whose better reply the operator knows
        # After a further question the replies are no longer those that the operator knows.
        is_failed = battle.turn_count == 1 and outcome != battle.origin["better"]
        honeypot = "failed" if is_failed else "passed"
    vote: dict[str, Any] = {
        "battle_id": name,
        "voter_kind": "person",
        "judge": "",
        "voter": pseudonym,
        "trust": trust,
        "network": facts.network,
        "question": facts.question,
        "leak": facts.leak,
        "honeypot": honeypot,
        "outcome": outcome,
        "cast": now,
        "detail": facts.detail,
    }
    try:
        connection.execute(_VOTE, vote)
    except IntegrityError:
        raise ConflictError(_not_answered("voted")) from None
    return battle


def waiting_since(seconds: float) -> datetime:
    """Return the time this many seconds ago."""
    return utc_now() - timedelta(seconds=seconds)


def _update_unless_changed(
    connection: Connection, name: str, turns: int, state: BattleState, changes: dict[str, Any]
) -> bool:
    """Change a battle, unless another request has changed its state or added a question meanwhile.

    Args:
        connection: The transaction to write in.
        name: Id of the battle.
        turns: Number of questions that the battle must have.
        state: State that it must be in.
        changes: New values by column.

    Returns:
        Whether the battle was changed.
    """
    is_unchanged = and_(
        arena_battle.c.id == name, arena_battle.c.state == state, arena_battle.c.turn_count == turns
    )
    statement = update(arena_battle).where(is_unchanged).values(changed=utc_now(), **changes)
    return connection.execute(statement).rowcount > 0


def _voided(fault: str) -> dict[str, Any]:
    """Return the values of the columns of a battle that became void, with the reason (at most 300 characters)."""
    return {"state": "voided", "fault": fault[:300], "token_digest": None}


def _voter(connection: Connection, actor: str) -> tuple[str, str | None]:
    """Return a person's pseudonym in the log of votes, and the digest of their invitation.

    The digest is None if they have accepted none. The pseudonym is a random id that is created at
    the person's first vote. Only the table `arena_voter` links it to the person, so the link can be
    deleted.
    """
    voter_row = connection.execute(_KNOWN, {"known": actor}).one_or_none()
    if voter_row:
        return voter_row.pseudonym, voter_row.invitation
    new_pseudonym = new_id()
    try:
        with connection.begin_nested():
            connection.execute(insert(arena_voter).values(actor=actor, pseudonym=new_pseudonym))
    except IntegrityError:
        voter_row = connection.execute(_KNOWN, {"known": actor}).one()
        return voter_row.pseudonym, voter_row.invitation
    return new_pseudonym, None


def _not_votable(battle: Row[Any]) -> str:
    """Return a sentence that tells a person why their vote on a battle was refused."""
    if battle.kind == "chat":
        return "a chat with one model has no vote"
    if battle.state == "answered":
        return "this vote was for earlier replies; reload the page and vote on the current ones"
    return _not_answered(battle.state)


def _not_answered(state: str) -> str:
    """Return a sentence that tells why a battle in this state cannot be voted on or continued."""
    reasons = {
        "created": "not all replies have arrived yet; reload the page",
        "voted": "this battle already has a vote",
        "voided": "this battle is void because a model failed or you started another battle; start a new one",
        "abandoned": "you have started another battle since, so you cannot vote on this one",
    }
    return reasons.get(state, "another question was sent at the same time")
