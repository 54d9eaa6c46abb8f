"""The settings of an arena: `[feature.arena]` of the server's configuration, or a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from snellen import DataError
from snellen.plugin_api import read_text
from snellen_server.arena_ratings.votes import TrustSettings

Sampling = Literal["uniform", "need"]
ARENA = "arena"
"""The feature's name."""
MAX_IMAGES = 16
"""Most images that an operator may allow in one question."""


class ArenaModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model that answers."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    """Its name on the pages, hidden until the vote."""
    model: str
    """A model string (docs/models-openai.md and the pages beside it)."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Time limit for one reply; a battle with a later reply is void."""
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Requests at the same time. A model in this process replies to one request at a time, whatever is set here."""
    waiting: Annotated[int, Meta(ge=0, le=10_000)] = 16
    """Length of its queue of questions; while the queue is full, the model is not drawn."""
    maker: Annotated[str, Meta(max_length=100)] = ""
    """The organisation that made it, for the page of ratings. A reply that names it reveals the model."""
    licence: Annotated[str, Meta(max_length=100)] = ""
    """The licence of its weights, for the page of ratings."""
    names: tuple[str, ...] = ()
    """Further names by which a reply would reveal it."""
    reply_price: Annotated[float, Meta(ge=0)] = 0.0
    """Upper bound of the price of one reply, in the unit of `daily_budget`."""
    reply_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 512
    """Maximum length of a reply in tokens."""
    boost: Annotated[float, Meta(gt=0, le=100)] = 1.0
    """Factor by which its pairs are drawn more often, for a new model that needs votes."""
    retired: bool = False
    """Whether it takes no more questions. Its votes and its rating stay, as does what the page says about it."""


class KnownReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the two prepared replies of a honeypot, and the model that is said to have written it."""

    model: Annotated[str, Meta(min_length=1, max_length=100)]
    """The name that is shown after the vote."""
    reply: Annotated[str, Meta(min_length=1)]


class Honeypot(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prepared battle whose better reply the operator knows, to find people who vote carelessly.

    Voters cannot tell it from other battles.
    """

    question: Annotated[str, Meta(min_length=1)]
    better: KnownReply
    worse: KnownReply
    image: str = ""
    """An image file. If it is also an example image with this question, the honeypot replaces some battles about it."""


class QuestionCategory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A category of questions, which has ratings of its own on the page."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    pattern: Annotated[str, Meta(min_length=1, max_length=2000)]
    """A regular expression of Python, looked for in the first question regardless of case."""

    def __post_init__(self) -> None:
        """Raise ValueError if the pattern is not a regular expression."""
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(
                f"the pattern of category {self.name!r} is no regular expression ({error})"
            ) from None


CATEGORIES = (
    QuestionCategory(name="Counting", pattern=r"\b(how many|count|number of)\b"),
    QuestionCategory(
        name="Charts and documents",
        pattern=r"\b(chart|graph|plot|diagram|table|axis|document|invoice|receipt|form)\b",
    ),
    QuestionCategory(
        name="Reading text",
        pattern=r"\b(read|text|written|says?|words?|letters?|sign|label|transcribe)\b",
    ),
    QuestionCategory(
        name="Homework",
        pattern=r"\b(solve|calculate|compute|equation|prove|theorem|triangle|integral|exercise)\b",
    ),
    QuestionCategory(
        name="Describing",
        pattern=r"\b(describe|caption|what do you see|what is (in|on|this|shown|happening))\b",
    ),
)
"""Categories of questions in English; an operator may replace them. A question is in the first that fits."""


class JudgeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a judge model, whose votes are kept apart from those of people."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    model: str
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    reply_price: Annotated[float, Meta(ge=0)] = 0.0
    battles: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Greatest number of battles that it judges each time that its job runs."""
    every_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds for which it waits with a battle that has replies but no vote, because the battle may go on."""


class ArenaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an arena is run. docs/reference/server.md describes each field."""

    models: tuple[ArenaModel, ...] = ()
    sampling: Sampling = "uniform"
    """How pairs are drawn: all alike, or those with fewer votes more often (`running.pair_probabilities`)."""
    turns: Annotated[int, Meta(ge=1, le=50)] = 8
    """Most questions of one battle."""
    without_image: bool = False
    """Take questions without an image, too; for models that can be asked so."""
    max_images: Annotated[int, Meta(ge=1, le=MAX_IMAGES)] = 4
    """Most images of one question; for models that take only one, set 1."""
    question_characters: Annotated[int, Meta(ge=1, le=20_000)] = 2000
    examples: tuple[str, ...] = ()
    """Where images to try come from: benchmarks, with their questions, or folders of images."""
    examples_each: Annotated[int, Meta(ge=1, le=100)] = 4
    runs: tuple[str, ...] = ()
    """Folders of runs whose replies are voted on with no model running."""
    judge: JudgeSettings | None = None
    categories: tuple[QuestionCategory, ...] = CATEGORIES
    """Categories of questions; a question is in the first whose pattern it contains."""
    daily_budget: Annotated[float, Meta(ge=0)] | None = None
    """What all replies of one day (UTC) may cost; None for no limit."""
    trust: TrustSettings = TrustSettings()
    """Which votes count, and how much."""
    network_days: Annotated[int, Meta(ge=1, le=366)] = 30
    """After so many days a network has another pseudonym, and nobody can find the one before any more."""
    honeypots: tuple[Honeypot, ...] = ()
    honeypot_share: Annotated[float, Meta(ge=0, le=1)] = 0.05
    """With which probability a battle that may be a honeypot is one."""
    ranked_by: Literal["all", "accounts"] = "all"
    """Whose votes make the ranks on the page; the other ratings stand beside."""
    least_votes: Annotated[int, Meta(ge=1)] = 1
    """The number of votes before which nothing is rated."""
    resamples: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Of the bootstrap behind the intervals on the page."""

    def __post_init__(self) -> None:
        """Raise ValueError if two models have the same name."""
        names = [model.name for model in self.models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two models are named {twice[0]!r}; give each a name of its own")


def read_arena_file(file: Path) -> Mapping[str, Any]:
    """Return the checked content of a TOML file that has only the settings of an arena.

    Raises DataError.
    """
    content = _decode_file(file)
    _convert_settings(file, content)
    return content


def read_settings(file: Path) -> ArenaSettings:
    """Read the settings of an arena from its own file or from that of a whole server. Raises DataError."""
    content = _decode_file(file)
    if "feature" in content:
        content = content["feature"].get(ARENA, {})
    return _convert_settings(file, content)


def _decode_file(file: Path) -> dict[str, Any]:
    """Decode a TOML file of settings; raises DataError if it cannot be read or is not TOML."""
    try:
        return msgspec.toml.decode(read_text(file), type=dict[str, Any])
    except OSError as error:
        raise DataError(
            f"{file} cannot be read ({error.strerror}); give `demo`, or a TOML file"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _fault(file, error) from None


def _convert_settings(file: Path, content: Mapping[str, Any]) -> ArenaSettings:
    """Convert decoded settings to their record; raises DataError that names the file and the wrong setting."""
    try:
        return msgspec.convert(content, ArenaSettings)
    except msgspec.ValidationError as error:
        raise _fault(file, error) from None


def _fault(file: Path, error: Exception) -> DataError:
    return DataError(f"{file}: {error}; docs/reference/server.md has the fields of an arena")
