"""Logs of votes: read in any known form, checked row by row, and written as JSON lines or Parquet.

A row is a battle: two models' replies to one prompt, side by side, and the vote for one of them. What a log holds that
is not a vote, or cannot be read, is counted by reason; nothing is lost without a count. Rows of logs that other arenas
wrote are read as battles, too, or refused for a reason that is counted.
"""

from __future__ import annotations

import hashlib
import io
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import polars as pl
from msgspec import Struct

from snellen.plugin_api import DataError, open_text, read_json_value, write_atomically

Outcome = Literal["left", "right", "tie", "both bad"]
VoterKind = Literal["person", "judge"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
VOTER_KINDS: tuple[str, ...] = get_args(VoterKind)


class Battle(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A vote between two models. The side on which a model was shown is its field: `left` or `right`."""

    id: str
    left: str
    right: str
    outcome: Outcome
    time: float | None = None
    """When the vote was given: seconds since 1970, UTC."""
    left_version: str = ""
    """Two versions of a model are two models to a rating."""
    right_version: str = ""
    category: str = ""
    language: str = ""
    propensity: float | None = None
    """With which probability this pair, on whichever sides, was drawn when it was; None where nobody logged it."""
    voter: str | None = None
    """A pseudonym. None: nobody knows who voted, and the vote counts as that of a voter of its own."""
    voter_kind: VoterKind = "person"
    anonymous: bool = True
    """Whether the models' names were hidden until the vote."""
    prompt: str | None = None
    left_reply: str | None = None
    right_reply: str | None = None
    image: str | None = None
    """Digest of the picture."""


_COLUMN_TYPES = {bool: pl.Boolean, float | None: pl.Float64}
SCHEMA: dict[str, Any] = {
    name: _COLUMN_TYPES.get(kind, pl.String) for name, kind in get_type_hints(Battle).items()
}
"""Columns of a table of battles: the fields of `Battle`."""
DEFAULTS = {
    field.name: field.default
    for field in msgspec.structs.fields(Battle)
    if field.default is not msgspec.NODEFAULT
}


def battle_table(battles: Iterable[Battle]) -> pl.DataFrame:
    """Battles as a table with the columns of `SCHEMA`, a row each, in their order."""
    rows = tuple(battles)
    return pl.DataFrame(
        {name: [getattr(row, name) for row in rows] for name in SCHEMA}, schema=SCHEMA
    )


PEOPLE = ("arena_user_", "expert", "author", "human")
"""How `judge` begins where a person has voted (Chatbot Arena, MT-bench); any other is a model that judges."""
FAILURES = (
    "NETWORK ERROR DUE TO HIGH TRAFFIC",
    "API REQUEST ERROR",
    "$MODERATION$",
    "(error_code: ",
)
"""What the two servers write in place of a reply that failed."""
_HEADING = re.compile(r"<h3>[^:]*: (.*)</h3>\s*", re.DOTALL)
_HIDDEN = ("", "Model A", "Model B")


class NotRated(Exception):  # noqa: N818 - no fault of the program, but the reason for which a row is left out
    """Why a row of a log is not a vote that can be rated."""


@dataclass(frozen=True)
class Pseudonyms:
    """Names for voters of whom a log holds an address: a keyed digest, the same for the same address and salt."""

    salt: bytes

    def of(self, address: Any) -> str | None:
        if not address:
            return None
        return f"voter-{hashlib.blake2b(str(address).encode(), key=self.salt[:64], digest_size=9).hexdigest()}"


RowReader = Callable[[Mapping[str, Any], str, Pseudonyms], Battle]


@dataclass(frozen=True)
class LogForm:
    """A form of log: its name, what it is, the fields by which its rows are known, and how one is read.

    `read` is given a row, its place (which serves as an id where the row has none) and what makes pseudonyms; it raises
    NotRated.
    """

    name: str
    what: str
    marks: frozenset[str]
    read: RowReader


def read_own(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    return msgspec.convert(row, Battle)


_WINNERS: dict[Any, Outcome] = {
    "model_a": "left",
    "model_b": "right",
    "tie": "tie",
    "tie (bothbad)": "both bad",
    "tie (both bad)": "both bad",
    "both_bad": "both bad",
    "bothbad": "both bad",
}
_VOTERS = ("judge", "judge_hash", "evaluation_session_id", "user_id")
"""Fields that name who voted, in logs of FastChat and of LMArena."""
NOT_SAMPLED = "taken out by the log's own removal of duplicates (dedup_tag)"


def read_clean_battle(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a battle as FastChat's `clean_battle_data.py` and LMArena's data sets have it; model_a stood on the left.

    Rows that LMArena's removal of frequent prompts did not sample are no votes of its leaderboard either.
    """
    tag = row.get("dedup_tag")
    if isinstance(tag, Mapping) and tag.get("sampled") is False:
        raise NotRated(NOT_SAMPLED)
    judge = next((row[name] for name in _VOTERS if row.get(name)), None)
    names = [judge] if isinstance(judge, str) else [str(part) for part in judge or ()]
    is_person = not names or "judge" not in row or names[0].startswith(PEOPLE)
    time = _seconds(row.get("tstamp") if "tstamp" in row else row.get("timestamp"))
    return Battle(
        id=str(row.get("question_id") or row.get("id") or _vote_id(row, names, time) or place),
        left=row["model_a"],
        right=row["model_b"],
        outcome=_outcome(_WINNERS, row["winner"]),
        time=time,
        language=row.get("language") or "",
        voter=(pseudonyms.of(names[0]) if is_person else " ".join(names)) if names else None,
        voter_kind="person" if is_person else "judge",
        anonymous=row.get("anony", True),
        prompt=_said(row.get("conversation_a"), "user"),
        left_reply=_said(row.get("conversation_a"), "assistant"),
        right_reply=_said(row.get("conversation_b"), "assistant"),
    )


def _vote_id(row: Mapping[str, Any], voter: Sequence[str], time: float | None) -> str:
    """An id for a vote of a known voter at a known time, so that the same row again is the same vote."""
    if not voter or time is None:
        return ""
    vote = (*voter, time, row["model_a"], row["model_b"], row["winner"])
    return f"vote-{hashlib.blake2b(msgspec.json.encode(vote), digest_size=12).hexdigest()}"


_ONE_HOT: dict[str, Outcome] = {
    "winner_model_a": "left",
    "winner_model_b": "right",
    "winner_tie": "tie",
}


def read_one_hot_battle(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a battle of LMSYS's human preference data of 55,000 votes, which has a column for each outcome."""
    outcomes = [outcome for name, outcome in _ONE_HOT.items() if int(row[name]) == 1]
    if len(outcomes) != 1:
        raise NotRated("outcome unknown")
    return Battle(
        id=str(row.get("id", place)),
        left=row["model_a"],
        right=row["model_b"],
        outcome=outcomes[0],
        prompt=_turns_of(row.get("prompt")),
        left_reply=_turns_of(row.get("response_a")),
        right_reply=_turns_of(row.get("response_b")),
    )


def _turns_of(cell: Any) -> str | None:
    """The texts of a list that is written as JSON, one below the other; another text as it is."""
    if not isinstance(cell, str):
        return None
    try:
        turns = msgspec.json.decode(cell, type=list[str | None])
    except msgspec.DecodeError:
        return cell
    return "\n".join(turn or "" for turn in turns)


_VOTES: dict[Any, Outcome] = {
    "leftvote": "left",
    "rightvote": "right",
    "tievote": "tie",
    "bothbad_vote": "both bad",
}


def read_conversation_vote(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """A line of FastChat's `YYYY-MM-DD-conv.json`. Names that were hidden are in the states of the two sides.

    The battle is the left side's conversation, so that a second vote on it is seen to be one. Only the part of a
    conversation from `offset` on is the visitors' own.
    """
    if row["type"] not in _VOTES:
        raise NotRated("not a vote but " + ("a chat" if row["type"] == "chat" else "another event"))
    shown_names = [_plain_name(name) for name in row["models"]]
    states = row["states"]
    hidden = [
        state.get("model_name") or name for state, name in zip(states, shown_names, strict=True)
    ]
    anonymous = all(name in _HIDDEN for name in shown_names)
    if not anonymous and (
        any(name in _HIDDEN for name in shown_names)
        or any(inner not in name for inner, name in zip(hidden, shown_names, strict=True))
    ):
        raise NotRated("the names shown are not those of the conversations")
    turns = [state["messages"][state.get("offset", 0) :] for state in states]
    if not all(turns) or any(text is None for side in turns for _, text in side):
        raise NotRated("a reply is missing")
    left, right = ([_text(text) for _, text in side] for side in turns)
    if any(failure in text for text in (*left[1::2], *right[1::2]) for failure in FAILURES):
        raise NotRated("a reply is an error of the server")
    return Battle(
        id=str(states[0].get("conv_id") or place),
        left=hidden[0],
        right=hidden[1],
        outcome=_VOTES[row["type"]],
        time=_seconds(row.get("tstamp")),
        voter=pseudonyms.of(row.get("ip")),
        anonymous=anonymous,
        prompt="\n".join(left[::2]),
        left_reply="\n".join(left[1::2]),
        right_reply="\n".join(right[1::2]),
    )


_USER_VOTES: dict[Any, Outcome] = {
    "left": "left",
    "right": "right",
    "tie": "tie",
    "bad": "both bad",
}


def read_multimodal_vote(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """A line of Multi-Modality-Arena's `YYYY-MM-DD-conversation.json`, which has neither time, voter nor id.

    The picture stands there pixel by pixel; it is kept as a digest of these numbers.
    """
    if "user_vote" not in row:
        raise NotRated("not a vote but a chat")
    left, right = row["VLP_names"]
    replies = row.get("VLP_outputs") or (None, None)
    if any(text is None or any(failure in text for failure in FAILURES) for text in replies):
        raise NotRated("a reply is missing or an error of the server")
    image = row.get("image")
    return Battle(
        id=place,
        left=left,
        right=right,
        outcome=_outcome(_USER_VOTES, row["user_vote"]),
        voter=pseudonyms.of(row.get("ip")),
        prompt=row.get("text"),
        left_reply=replies[0],
        right_reply=replies[1],
        image=hashlib.blake2b(msgspec.json.encode(image), digest_size=16).hexdigest()
        if image
        else None,
    )


FORMS = (
    LogForm(
        "snellen", "fields left, right, outcome", frozenset({"left", "right", "outcome"}), read_own
    ),
    LogForm(
        "fastchat-battles",
        "FastChat's cleaned battles: model_a, model_b, winner",
        frozenset({"model_a", "model_b", "winner"}),
        read_clean_battle,
    ),
    LogForm(
        "lmsys-55k",
        "LMSYS's human preferences: model_a, model_b, winner_model_a, winner_model_b, winner_tie",
        frozenset({"model_a", "model_b", *_ONE_HOT}),
        read_one_hot_battle,
    ),
    LogForm(
        "fastchat-conversations",
        "FastChat's logs: type, models, states",
        frozenset({"type", "tstamp"}),
        read_conversation_vote,
    ),
    LogForm(
        "multi-modality-arena",
        "Multi-Modality-Arena's logs: VLP_names, user_vote",
        frozenset({"VLP_names"}),
        read_multimodal_vote,
    ),
)
"""Every form of log, Snellen's own first."""


def _outcome(names: Mapping[Any, Outcome], name: Any) -> Outcome:
    if not isinstance(name, str) or name not in names:
        raise NotRated("outcome unknown")
    return names[name]


def _seconds(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    return float(value) if isinstance(value, int | float) else value.timestamp()


def _plain_name(name: Any) -> str:
    """A model's name as the page showed it, without its heading. Raises NotRated where there is none at all."""
    if not isinstance(name, str):
        raise NotRated("no name of a model")
    heading = _HEADING.fullmatch(name)
    return heading[1].strip() if heading else name


def _said(turns: Any, role: str) -> str | None:
    """What one side of a conversation in OpenAI's form says, turn below turn; None where there is no conversation."""
    if not isinstance(turns, list):
        return None
    return "\n".join(_text(turn["content"]) for turn in turns if turn["role"] == role)


def _text(content: Any) -> str:
    """The words of a message, whose content is a text, or a list of parts of which the first is the text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and content and isinstance(content[0], str):
        return content[0]
    if isinstance(content, Sequence):
        texts: list[str] = [part["text"] for part in content if part.get("type") == "text"]
        return "\n".join(texts)
    raise TypeError(content)


ROWS = 100_000
"""Battles turned into columns at once."""
VOTED_AGAIN = "voted again on the same battle"
ENDINGS = (".jsonl", ".json", ".parquet")


@dataclass(frozen=True)
class VoteLog:
    """Battles as a table (`arena_ratings.battle.SCHEMA`), by time, and how many rows were left out, by reason."""

    battles: pl.DataFrame
    left_out: Mapping[str, int] = field(default_factory=dict)
    forms: tuple[str, ...] = ()
    """The form that each file was read as."""

    @property
    def read(self) -> int:
        return self.battles.height + sum(self.left_out.values())


def read_votes(paths: Sequence[Path], *, salt: bytes | None = None) -> VoteLog:
    """The battles in `paths` (.jsonl, .json, .csv, .parquet; Snellen's own form, or one of `foreign_logs.FORMS`).

    Battles are sorted by time, those without one first and in the order of the files. Of several votes on one battle
    the first counts. Addresses of voters become pseudonyms by a keyed digest under `salt`, by default a random one
    that is not kept, so that nobody can find the address by trying all. Raises DataError when a file is none of these,
    or nothing in it is a vote.
    """
    pseudonyms = Pseudonyms(secrets.token_bytes(16) if salt is None else salt)
    tables, left_out, forms = list[pl.DataFrame](), Counter[str](), list[str]()
    for path in paths:
        table, reasons, form = _read(path, pseudonyms)
        if not table.height:
            reason_counts = "; ".join(
                f"{count:,} {reason}" for reason, count in reasons.most_common()
            )
            raise DataError(
                f"{path}: no votes ({reason_counts or 'the file is empty'}); {_known_forms()}"
            )
        tables.append(table)
        left_out += reasons
        forms.append(form)
    return _ordered(pl.concat(tables), left_out, tuple(forms))


def vote_log(battles: Iterable[Battle]) -> VoteLog:
    """Battles that are at hand, as a log: the same checks and the same order as if they were read from a file."""
    table, reasons = _sound(battle_table(battles))
    return _ordered(table, reasons, ())


def write_votes(path: Path, table: pl.DataFrame) -> None:
    """Write battles as .jsonl or .parquet. Raises DataError on another ending, StoreError when it cannot be written."""
    if path.suffix == ".parquet":
        content = io.BytesIO()
        table.select(*SCHEMA).write_parquet(content)
        write_atomically(path, content.getvalue())
    elif path.suffix == ".jsonl":
        encoder = msgspec.json.Encoder()
        rows = table.select(*SCHEMA).iter_rows(named=True)
        stated_rows = (
            {name: value for name, value in row.items() if value != DEFAULTS.get(name, ...)}
            for row in rows
        )
        write_atomically(path, b"".join(encoder.encode(row) + b"\n" for row in stated_rows))
    else:
        raise DataError(f"{path}: votes are written as .jsonl or .parquet")


def _ordered(table: pl.DataFrame, left_out: Counter[str], forms: tuple[str, ...]) -> VoteLog:
    ordered = table.sort("time", nulls_last=False, maintain_order=True)
    first = ordered.unique("id", keep="first", maintain_order=True)
    left_out[VOTED_AGAIN] += ordered.height - first.height
    return VoteLog(first, dict(+left_out), forms)


def _read(path: Path, pseudonyms: Pseudonyms) -> tuple[pl.DataFrame, Counter[str], str]:
    if path.suffix == ".parquet":
        try:
            table = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{path}: cannot be read as Parquet ({error})") from None
        if {"left", "right", "outcome"} <= set(table.columns):
            return *_sound(_own_columns(table, path)), "snellen"
        return _read_rows(path, table.iter_rows(named=True), pseudonyms)
    if path.name.removesuffix(".gz").endswith(ENDINGS[:2]):
        return _read_rows(path, _json_rows(path), pseudonyms)
    if path.name.removesuffix(".gz").endswith(".csv"):
        try:
            texts = pl.read_csv(path, infer_schema=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{path}: cannot be read as a table ({error})") from None
        return _read_rows(path, texts.iter_rows(named=True), pseudonyms)
    raise DataError(f"{path}: a log of votes is a .jsonl, .json, .csv or .parquet file")


def _own_columns(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    if unknown := [name for name in table.columns if name not in SCHEMA]:
        raise DataError(
            f"{path}: column {unknown[0]!r} is not one of a battle's ({', '.join(SCHEMA)})"
        )
    try:
        columns = [
            pl.col(name).cast(dtype)
            if name in table.columns
            else pl.lit(DEFAULTS.get(name), dtype).alias(name)
            for name, dtype in SCHEMA.items()
        ]
        return table.select(columns)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: {error}") from None


def _sound(table: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
    """The rows that are battles; of the others the first reason of each, counted."""
    model = {side: pl.col(side).fill_null("").str.strip_chars() for side in ("left", "right")}
    faults = {
        "no id": pl.col("id").fill_null("") == "",
        "no name of a model": (model["left"] == "") | (model["right"] == ""),
        "outcome unknown": ~pl.col("outcome").is_in(OUTCOMES).fill_null(False),
        "kind of voter unknown": ~pl.col("voter_kind").is_in(VOTER_KINDS).fill_null(False),
        "time is not a number": ~pl.col("time").is_finite().fill_null(True),
        "propensity not in (0, 1]": ~(
            (pl.col("propensity") > 0) & (pl.col("propensity") <= 1)
        ).fill_null(True),
    }
    reason = pl.coalesce(pl.when(fault).then(pl.lit(name)) for name, fault in faults.items())
    marked = table.with_columns(
        reason.alias("reason"), *(text.alias(side) for side, text in model.items())
    )
    reasons = Counter(marked["reason"].drop_nulls().to_list())
    sound_rows = marked.filter(pl.col("reason").is_null()).drop("reason")
    texts = [name for name in DEFAULTS if DEFAULTS[name] == ""]
    return sound_rows.with_columns(
        pl.col(texts).fill_null(""), pl.col("anonymous").fill_null(True)
    ), reasons


def _read_rows(
    path: Path, rows: Iterator[Any], pseudonyms: Pseudonyms
) -> tuple[pl.DataFrame, Counter[str], str]:
    reasons, form = Counter[str](), None
    tables, battles = [battle_table(())], list[Battle]()
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            reasons["not a JSON object"] += 1
            continue
        form = form or next(
            (known_form for known_form in FORMS if known_form.marks <= set(row)), None
        )
        if form is None:
            # The first rows of a log may be damaged; the form is that of the first row that has one.
            reasons["of no known form"] += 1
            continue
        battle = _battle(form, row, f"{path.name}:{number:08d}", pseudonyms)
        if isinstance(battle, Battle):
            battles.append(battle)
        else:
            reasons[battle] += 1
        if len(battles) == ROWS:
            tables.append(battle_table(battles))
            battles.clear()
    table, faults = _sound(pl.concat([*tables, battle_table(battles)]))
    return table, reasons + faults, form.name if form else ""


def _battle(form: LogForm, row: dict[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle | str:
    try:
        return form.read(row, place, pseudonyms)
    except NotRated as reason:
        return str(reason)
    except (KeyError, IndexError, TypeError, AttributeError, msgspec.ValidationError):
        return "fields missing or of the wrong kind"


def _json_rows(path: Path) -> Iterator[Any]:
    """The values of a JSON list or of JSON lines, whatever they are; None for a line that is not JSON."""
    with open_text(path) as file:
        first = next((line for line in file if line.strip()), b"")
    if path.name.removesuffix(".gz").endswith(".json") and first.lstrip().startswith(b"["):
        yield from read_json_value(path)
        return
    with open_text(path) as file:
        for line in file:
            if line.strip():
                try:
                    yield msgspec.json.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    yield None


def _known_forms() -> str:
    return "known forms are " + ", ".join(f"{form.name} ({form.what})" for form in FORMS)
