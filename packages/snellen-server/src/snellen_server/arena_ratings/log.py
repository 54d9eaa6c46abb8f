"""Logs of votes: read in any known form, checked row by row, and written as JSON lines or Parquet.

A row is a battle: the replies of two models to one prompt, and the vote between them. Logs of other arenas are
converted to battles too. Rows that are not votes, or cannot be read, are left out and counted by reason.
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

from snellen import DataError
from snellen.plugin_api import open_text, read_json_value, write_atomically

Outcome = Literal["left", "right", "tie", "both bad"]
VoterKind = Literal["person", "judge"]
Trust = Literal["account", "invited", "anonymous"]
HoneypotResult = Literal["passed", "failed"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
VOTER_KINDS: tuple[str, ...] = get_args(VoterKind)
TRUST_CLASSES: tuple[Trust, ...] = get_args(Trust)
HONEYPOT_RESULTS: tuple[str, ...] = get_args(HoneypotResult)


class Battle(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A vote between two models. The side on which a model was shown is its field: `left` or `right`."""

    id: str
    left: str
    right: str
    outcome: Outcome
    time: float | None = None
    """Time of the vote, in seconds since 1970 UTC."""
    left_version: str = ""
    """Version of the left model; ratings treat two versions of a model as two models."""
    right_version: str = ""
    category: str = ""
    language: str = ""
    propensity: float | None = None
    """Probability with which this pair was drawn, regardless of sides; None if it was not logged."""
    voter: str | None = None
    """Pseudonym of the voter. None if the voter is unknown; the vote then counts as that of a separate voter."""
    voter_kind: VoterKind = "person"
    anonymous: bool = True
    """Whether the models' names were hidden until the vote."""
    prompt: str | None = None
    left_reply: str | None = None
    right_reply: str | None = None
    left_characters: float | None = None
    """Characters of the left reply, so that style is known where replies are not published (`arena_ratings.style`)."""
    left_headers: float | None = None
    """Headers in Markdown in the left reply; the next two count list items and bold parts."""
    left_list_items: float | None = None
    left_bold: float | None = None
    right_characters: float | None = None
    right_headers: float | None = None
    right_list_items: float | None = None
    right_bold: float | None = None
    image: str | None = None
    """Digest of the image; of several, their digests in order with commas between."""
    trust: str = ""
    """One of `TRUST_CLASSES`: how the voter is known; empty if it was not logged."""
    network: str | None = None
    """Pseudonym of the network that the vote came from. It expires: later, the same network has another pseudonym."""
    question: str | None = None
    """Keyed digest of question and images, to detect a repeated question."""
    leak: str = ""
    """How a model revealed its identity before the vote; empty if none did."""
    honeypot: str = ""
    """One of `HONEYPOT_RESULTS` if the better reply was known beforehand; such a vote is not rated."""


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
    """Return battles as a table with the columns of `SCHEMA`, one row per battle in the given order."""
    rows = tuple(battles)
    columns: dict[str, list[Any]] = {}
    for name in SCHEMA:
        columns[name] = [getattr(row, name) for row in rows]
    return pl.DataFrame(columns, schema=SCHEMA)


PREFIXES_OF_PEOPLE = ("arena_user_", "expert", "author", "human")
"""Beginnings of `judge` if a person has voted (Chatbot Arena, MT-bench); any other value is a judge model."""
SERVER_ERROR_TEXTS = (
    "NETWORK ERROR DUE TO HIGH TRAFFIC",
    "API REQUEST ERROR",
    "$MODERATION$",
    "(error_code: ",
)
"""Texts that the servers of FastChat and Multi-Modality-Arena write in place of a failed reply."""
_HEADING = re.compile(r"<h3>[^:]*: (.*)</h3>\s*", re.DOTALL)
_HIDDEN_NAMES = ("", "Model A", "Model B")
"""What FastChat's page shows in place of the names of models that are hidden until the vote."""


class NotRated(Exception):  # noqa: N818 - not an error, but the reason why a row is left out
    """Raised for a row of a log that is not a vote that can be rated; its text is the reason."""


@dataclass(frozen=True)
class Pseudonyms:
    """Pseudonyms of voters whose address is in a log: a keyed digest, equal for the same address and salt."""

    salt: bytes

    def of(self, address: Any) -> str | None:
        """Return the pseudonym of an address; None for an empty one."""
        if not address:
            return None
        key = self.salt[:64]  # the longest key that BLAKE2b takes
        digest = hashlib.blake2b(str(address).encode(), key=key, digest_size=9).hexdigest()
        return f"voter-{digest}"


RowReader = Callable[[Mapping[str, Any], str, Pseudonyms], Battle]


@dataclass(frozen=True)
class LogForm:
    """A form of log: its name, a description, the fields that identify its rows, and the reader of a row.

    `reader` receives a row, its place in the file (which becomes its id if it has none) and the pseudonyms. It raises
    NotRated for a row to exclude.
    """

    name: str
    description: str
    marks: frozenset[str]
    reader: RowReader


def read_own(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a row of Snellen's own logs, whose fields are those of `Battle`. Raises msgspec.ValidationError."""
    return msgspec.convert(row, Battle)


_OUTCOME_OF_WINNER: dict[Any, Outcome] = {
    "model_a": "left",
    "model_b": "right",
    "tie": "tie",
    "tie (bothbad)": "both bad",
    "tie (both bad)": "both bad",
    "both_bad": "both bad",
    "bothbad": "both bad",
}
_VOTER_FIELDS = ("judge", "judge_hash", "evaluation_session_id", "user_id")
"""Fields that name who voted, in logs of FastChat and of LMArena."""
REMOVED_AS_DUPLICATE = "taken out by the log's own removal of duplicates (dedup_tag)"


def read_clean_battle(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a battle in the form of FastChat's `clean_battle_data.py` and LMArena's data sets; model_a is on the left.

    Rows that LMArena's removal of frequent prompts has dropped are left out, as they are in its leaderboard.

    Args:
        row: A row of the log.
        place: The row's place in the file, which is the battle's id if neither the log has an id nor one can be made.
        pseudonyms: Replaces the addresses of voters.

    Raises:
        NotRated: The row is a duplicate, or its outcome is unknown.
    """
    tag = row.get("dedup_tag")
    if isinstance(tag, Mapping) and tag.get("sampled") is False:
        raise NotRated(REMOVED_AS_DUPLICATE)

    # Who voted: a person's name or address, or the name of a judge model with its settings.
    named_voter = None
    for field_name in _VOTER_FIELDS:
        if row.get(field_name):
            named_voter = row[field_name]
            break
    if isinstance(named_voter, str):
        voter_parts = [named_voter]
    else:
        voter_parts = [str(part) for part in named_voter or ()]
    is_person = (
        not voter_parts or "judge" not in row or voter_parts[0].startswith(PREFIXES_OF_PEOPLE)
    )
    if not voter_parts:
        voter = None
    elif is_person:
        voter = pseudonyms.of(voter_parts[0])
    else:
        voter = " ".join(voter_parts)

    stored_time = row["tstamp"] if "tstamp" in row else row.get("timestamp")
    time = _seconds_since_1970(stored_time)
    battle_id = row.get("question_id") or row.get("id") or _vote_id(row, voter_parts, time) or place
    return Battle(
        id=str(battle_id),
        left=row["model_a"],
        right=row["model_b"],
        outcome=_outcome(_OUTCOME_OF_WINNER, row["winner"]),
        time=time,
        language=row.get("language") or "",
        voter=voter,
        voter_kind="person" if is_person else "judge",
        anonymous=row.get("anony", True),
        prompt=_text_of_role(row.get("conversation_a"), "user"),
        left_reply=_text_of_role(row.get("conversation_a"), "assistant"),
        right_reply=_text_of_role(row.get("conversation_b"), "assistant"),
    )


def _vote_id(row: Mapping[str, Any], voter_parts: Sequence[str], time: float | None) -> str:
    """Return an id for a vote without one, made from voter, time, models and outcome; "" without a voter or a time.

    If a log contains the same vote twice, both rows get the same id.
    """
    if not voter_parts or time is None:
        return ""
    vote = (*voter_parts, time, row["model_a"], row["model_b"], row["winner"])
    digest = hashlib.blake2b(msgspec.json.encode(vote), digest_size=12).hexdigest()
    return f"vote-{digest}"


_OUTCOME_OF_COLUMN: dict[str, Outcome] = {
    "winner_model_a": "left",
    "winner_model_b": "right",
    "winner_tie": "tie",
}


def read_one_hot_battle(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a battle of LMSYS's human preference data of 55,000 votes, which has a column for each outcome."""
    outcomes = [outcome for name, outcome in _OUTCOME_OF_COLUMN.items() if int(row[name]) == 1]
    if len(outcomes) != 1:
        raise NotRated("unknown outcome")
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
    """Return the texts of a JSON list joined by lines, or any other text unchanged; None if the cell is not a text."""
    if not isinstance(cell, str):
        return None
    try:
        turns = msgspec.json.decode(cell, type=list[str | None])
    except msgspec.DecodeError:
        return cell
    return "\n".join(turn or "" for turn in turns)


_OUTCOME_OF_EVENT: dict[Any, Outcome] = {
    "leftvote": "left",
    "rightvote": "right",
    "tievote": "tie",
    "bothbad_vote": "both bad",
}


def read_conversation_vote(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a line of FastChat's `YYYY-MM-DD-conv.json`.

    `row["models"]` has the names that the page showed, and `row["states"]` the conversation of each side with its true
    name. The battle gets the id of the left side's conversation, so that a second vote on it is recognised. Messages
    before `offset` are the example that each conversation begins with.

    Raises:
        NotRated: The row is another event than a vote, or a reply is missing or an error, or the names that were shown
            differ from the true ones.
    """
    if row["type"] not in _OUTCOME_OF_EVENT:
        event = "a chat" if row["type"] == "chat" else "another event"
        raise NotRated(f"not a vote but {event}")
    states = row["states"]
    shown_names = [_plain_name(name) for name in row["models"]]
    true_names = []
    for state, shown_name in zip(states, shown_names, strict=True):
        true_names.append(state.get("model_name") or shown_name)
    anonymous = all(name in _HIDDEN_NAMES for name in shown_names)
    if not anonymous:
        for shown_name, true_name in zip(shown_names, true_names, strict=True):
            if shown_name in _HIDDEN_NAMES or true_name not in shown_name:
                raise NotRated("the names shown differ from those of the conversations")

    # A conversation is a list of pairs (role, text) that alternates between prompt and reply.
    conversations = [state["messages"][state.get("offset", 0) :] for state in states]
    for messages in conversations:
        if not messages or any(text is None for _, text in messages):
            raise NotRated("a reply is missing")
    left_texts = [_message_text(text) for _, text in conversations[0]]
    right_texts = [_message_text(text) for _, text in conversations[1]]
    prompts = left_texts[::2]
    left_replies = left_texts[1::2]
    right_replies = right_texts[1::2]
    for reply in (*left_replies, *right_replies):
        if any(failure in reply for failure in SERVER_ERROR_TEXTS):
            raise NotRated("a reply is an error of the server")
    return Battle(
        id=str(states[0].get("conv_id") or place),
        left=true_names[0],
        right=true_names[1],
        outcome=_OUTCOME_OF_EVENT[row["type"]],
        time=_seconds_since_1970(row.get("tstamp")),
        voter=pseudonyms.of(row.get("ip")),
        anonymous=anonymous,
        prompt="\n".join(prompts),
        left_reply="\n".join(left_replies),
        right_reply="\n".join(right_replies),
    )


_OUTCOME_OF_USER_VOTE: dict[Any, Outcome] = {
    "left": "left",
    "right": "right",
    "tie": "tie",
    "bad": "both bad",
}


def read_multimodal_vote(row: Mapping[str, Any], place: str, pseudonyms: Pseudonyms) -> Battle:
    """Read a line of Multi-Modality-Arena's `YYYY-MM-DD-conversation.json`, which has no time, voter or id.

    It contains the image as pixel values, of which only a digest is kept.
    """
    if "user_vote" not in row:
        raise NotRated("not a vote but a chat")
    left, right = row["VLP_names"]
    replies = row.get("VLP_outputs") or (None, None)
    for reply in replies:
        if reply is None or any(failure in reply for failure in SERVER_ERROR_TEXTS):
            raise NotRated("a reply is missing or an error of the server")
    image = row.get("image")
    image_digest = None
    if image:
        image_digest = hashlib.blake2b(msgspec.json.encode(image), digest_size=16).hexdigest()
    return Battle(
        id=place,
        left=left,
        right=right,
        outcome=_outcome(_OUTCOME_OF_USER_VOTE, row["user_vote"]),
        voter=pseudonyms.of(row.get("ip")),
        prompt=row.get("text"),
        left_reply=replies[0],
        right_reply=replies[1],
        image=image_digest,
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
        frozenset({"model_a", "model_b", *_OUTCOME_OF_COLUMN}),
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
    """Return our outcome for the name that a log gives it; raises NotRated for an unknown name."""
    if not isinstance(name, str) or name not in names:
        raise NotRated("unknown outcome")
    return names[name]


def _seconds_since_1970(value: Any) -> float | None:
    """Return a time of a log, a number or a datetime, as seconds since 1970; None if there is none."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return float(value.timestamp())


def _plain_name(name: Any) -> str:
    """Return the name of a model as the page showed it, without the heading. Raises NotRated if it is not a text."""
    if not isinstance(name, str):
        raise NotRated("a model has no name")
    heading = _HEADING.fullmatch(name)
    return heading[1].strip() if heading else name


def _text_of_role(turns: Any, role: str) -> str | None:
    """Return the messages of a role in a conversation in OpenAI's form, joined by lines; None for other values."""
    if not isinstance(turns, list):
        return None
    return "\n".join(_message_text(turn["content"]) for turn in turns if turn["role"] == role)


def _message_text(content: Any) -> str:
    """Return the text of a message. Its content is a text, a list that begins with one, or a list of OpenAI's parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and content and isinstance(content[0], str):
        return content[0]
    if isinstance(content, Sequence):
        texts: list[str] = [part["text"] for part in content if part.get("type") == "text"]
        return "\n".join(texts)
    raise TypeError(content)


BATTLES_PER_TABLE = 100_000
"""Number of battles to convert to a table at a time."""
VOTED_AGAIN = "voted again on the same battle"
ENDINGS = (".jsonl", ".json", ".parquet")


@dataclass(frozen=True)
class VoteLog:
    """Battles in a table with the columns of `SCHEMA`, sorted by time, and the numbers of excluded rows."""

    battles: pl.DataFrame
    left_out_votes: Mapping[str, int] = field(default_factory=dict)
    """Number of excluded rows by reason."""
    forms: tuple[str, ...] = ()
    """The form of each file."""

    @property
    def row_count(self) -> int:
        """Number of rows that were read, including excluded ones."""
        return self.battles.height + sum(self.left_out_votes.values())


def read_votes(paths: Sequence[Path], *, salt: bytes | None = None) -> VoteLog:
    """Read the battles in files of any of the `FORMS`.

    Battles are sorted by time; those without a time come first, in the order of the files. If a battle has several
    votes, the first one counts.

    Args:
        paths: The files: .jsonl, .json, .csv or .parquet.
        salt: Key of the digests that replace the addresses of voters. By default it is random and not stored, so that
            an address cannot be found by trying all.

    Raises:
        DataError: If a file has another form or contains no vote.
    """
    pseudonyms = Pseudonyms(secrets.token_bytes(16) if salt is None else salt)
    tables: list[pl.DataFrame] = []
    left_out_votes: Counter[str] = Counter()
    forms: list[str] = []
    for path in paths:
        table, reasons, form = _read_log_file(path, pseudonyms)
        if not table.height:
            reason_counts = "; ".join(
                f"{count:,} {reason}" for reason, count in reasons.most_common()
            )
            raise DataError(
                f"{path}: no votes ({reason_counts or 'the file is empty'}); {_known_forms()}"
            )
        tables.append(table)
        left_out_votes += reasons
        forms.append(form)
    return _in_time_order(pl.concat(tables), left_out_votes, tuple(forms))


def vote_log(battles: Iterable[Battle]) -> VoteLog:
    """Return battles as a log, checked and sorted as if they were read from a file."""
    table, reasons = _valid_rows(battle_table(battles))
    return _in_time_order(table, reasons, ())


def write_votes(path: Path, table: pl.DataFrame) -> None:
    """Write battles as .jsonl or .parquet; JSON lines omit default values.

    Raises:
        DataError: If the path has another suffix.
        StoreError: If the file cannot be written.
    """
    if path.suffix == ".parquet":
        content = io.BytesIO()
        table.select(*SCHEMA).write_parquet(content)
        write_atomically(path, content.getvalue())
    elif path.suffix == ".jsonl":
        encoder = msgspec.json.Encoder()
        lines: list[bytes] = []
        for row in table.select(*SCHEMA).iter_rows(named=True):
            # A required field has no default, so it is always written.
            stated = {
                name: value for name, value in row.items() if value != DEFAULTS.get(name, ...)
            }
            lines.append(encoder.encode(stated) + b"\n")
        write_atomically(path, b"".join(lines))
    else:
        raise DataError(f"{path}: votes are written as .jsonl or .parquet")


def _in_time_order(
    table: pl.DataFrame, left_out_votes: Counter[str], forms: tuple[str, ...]
) -> VoteLog:
    """Return a log of these battles, sorted by time, with only the first vote of each battle id.

    Later votes on a battle are added to `left_out_votes`.
    """
    by_time = table.sort("time", nulls_last=False, maintain_order=True)
    first_votes = by_time.unique("id", keep="first", maintain_order=True)
    left_out_votes[VOTED_AGAIN] += by_time.height - first_votes.height
    return VoteLog(first_votes, dict(+left_out_votes), forms)


def _read_log_file(path: Path, pseudonyms: Pseudonyms) -> tuple[pl.DataFrame, Counter[str], str]:
    """Read a file; return its battles, the numbers of excluded rows by reason, and its form."""
    if path.suffix == ".parquet":
        try:
            table = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{path}: cannot be read as Parquet ({error})") from None
        if {"left", "right", "outcome"} <= set(table.columns):
            return *_valid_rows(_own_columns(table, path)), "snellen"
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
    """Return a table in Snellen's own form with every column of `SCHEMA`, missing ones filled by their default.

    Raises DataError for a column that no battle has, or whose values do not have the type of that column.
    """
    for name in table.columns:
        if name not in SCHEMA:
            raise DataError(
                f"{path}: column {name!r} is not one of a battle's ({', '.join(SCHEMA)})"
            )
    columns: list[pl.Expr] = []
    for name, dtype in SCHEMA.items():
        if name in table.columns:
            columns.append(pl.col(name).cast(dtype))
        else:
            columns.append(pl.lit(DEFAULTS.get(name), dtype).alias(name))
    try:
        return table.select(columns)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: {error}") from None


def _valid_rows(table: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
    """Select the valid rows of a table of battles, which has the columns of `SCHEMA`.

    Returns:
        The valid rows, with missing texts replaced by "", and the number of invalid rows by the first reason that
        applies to each.
    """
    left = pl.col("left").fill_null("").str.strip_chars()
    right = pl.col("right").fill_null("").str.strip_chars()
    propensity = pl.col("propensity")
    # A comparison with a missing value is missing. `fill_null` says whether a missing value is valid.
    has_id = pl.col("id").fill_null("") != ""
    has_models = (left != "") & (right != "")
    is_known_outcome = pl.col("outcome").is_in(OUTCOMES).fill_null(False)
    is_known_voter_kind = pl.col("voter_kind").is_in(VOTER_KINDS).fill_null(False)
    is_known_trust = pl.col("trust").is_in(("", *TRUST_CLASSES)).fill_null(True)
    is_known_honeypot = pl.col("honeypot").is_in(("", *HONEYPOT_RESULTS)).fill_null(True)
    is_time_valid = pl.col("time").is_finite().fill_null(True)
    is_propensity_valid = ((propensity > 0) & (propensity <= 1)).fill_null(True)
    conditions = {
        "no id": has_id,
        "a model has no name": has_models,
        "unknown outcome": is_known_outcome,
        "unknown kind of voter": is_known_voter_kind,
        "unknown class of trust": is_known_trust,
        "unknown result of a honeypot": is_known_honeypot,
        "time is not a number": is_time_valid,
        "propensity not in (0, 1]": is_propensity_valid,
    }
    reasons = []
    for reason, condition in conditions.items():
        reasons.append(pl.when(~condition).then(pl.lit(reason)))
    marked = table.with_columns(
        pl.coalesce(reasons).alias("reason"), left.alias("left"), right.alias("right")
    )
    invalid_rows = Counter(marked["reason"].drop_nulls().to_list())
    valid_rows = marked.filter(pl.col("reason").is_null()).drop("reason")
    text_columns = [name for name, default in DEFAULTS.items() if default == ""]
    valid_rows = valid_rows.with_columns(
        pl.col(text_columns).fill_null(""), pl.col("anonymous").fill_null(True)
    )
    return valid_rows, invalid_rows


def _read_rows(
    path: Path, rows: Iterator[Any], pseudonyms: Pseudonyms
) -> tuple[pl.DataFrame, Counter[str], str]:
    """Convert rows of a log to battles.

    Returns:
        The table of battles, how many rows were left out for each reason, and the name of the log's form (or "").
    """
    excluded_rows: Counter[str] = Counter()
    form: LogForm | None = None
    tables = [battle_table(())]
    battles: list[Battle] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            excluded_rows["not a JSON object"] += 1
            continue
        # The first rows of a log may be damaged, so the form is that of the first row that has one.
        if form is None:
            form = _form_of(row)
        if form is None:
            excluded_rows["unknown form"] += 1
            continue
        battle = _read_battle(form, row, f"{path.name}:{number:08d}", pseudonyms)
        if isinstance(battle, Battle):
            battles.append(battle)
        else:
            excluded_rows[battle] += 1
        if len(battles) == BATTLES_PER_TABLE:
            tables.append(battle_table(battles))
            battles.clear()
    tables.append(battle_table(battles))
    valid_rows, invalid_rows = _valid_rows(pl.concat(tables))
    return valid_rows, excluded_rows + invalid_rows, form.name if form else ""


def _form_of(row: dict[str, Any]) -> LogForm | None:
    """Return the first form whose identifying fields a row has, or None."""
    for form in FORMS:
        if form.marks <= set(row):
            return form
    return None


def _read_battle(
    form: LogForm, row: dict[str, Any], place: str, pseudonyms: Pseudonyms
) -> Battle | str:
    """Read a row of a log as a battle; if it is not one that can be rated, return the reason."""
    try:
        return form.reader(row, place, pseudonyms)
    except NotRated as reason:
        return str(reason)
    except (
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        ValueError,  # also of msgspec; a list of another length
    ):
        return "missing fields or wrong types"


def _json_rows(path: Path) -> Iterator[Any]:
    """Yield the values of a JSON list or of JSON lines, of any type; None for a line that is not JSON."""
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
    """Return the phrase with which error messages list the forms of logs."""
    descriptions = [f"{form.name} ({form.description})" for form in FORMS]
    return "known forms are " + ", ".join(descriptions)
