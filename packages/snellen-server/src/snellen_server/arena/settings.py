"""What the operator of an arena decides: `[feature.arena]` of the server's configuration, or the file of `--arena`."""

from __future__ import annotations

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


class ArenaModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model that answers."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    """As people see it once they have voted."""
    model: str
    """A model string (docs/models-openai.md and the pages beside it)."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """How long one reply may take; a battle with a later one is void."""
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Replies written at once; a model in this process writes one at a time, whatever is set here."""
    waiting: Annotated[int, Meta(ge=0, le=10_000)] = 16
    """Questions that wait for it at most; it gets no more until it has room."""
    maker: Annotated[str, Meta(max_length=100)] = ""
    """Who made it, as the page of ratings says. A reply that says so gives the model away."""
    licence: Annotated[str, Meta(max_length=100)] = ""
    """The licence of its weights, or that it has none, as the page of ratings says."""
    names: tuple[str, ...] = ()
    """What else it is called, by itself or by others."""
    reply_price: Annotated[float, Meta(ge=0)] = 0.0
    """What one reply costs at most, in the unit of `daily_budget`."""
    reply_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 512
    """The longest reply."""


class KnownReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reply of a honeypot, and the model that wrote it."""

    model: Annotated[str, Meta(min_length=1, max_length=100)]
    """As it is shown after the vote."""
    reply: Annotated[str, Meta(min_length=1)]


class Honeypot(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A battle of which the operator knows the better reply; a voter cannot tell it from another one."""

    question: Annotated[str, Meta(min_length=1)]
    better: KnownReply
    worse: KnownReply
    image: str = ""
    """An image file. Where it is an example, with this question, the honeypot stands in for battles on it."""


class JudgeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that votes on battles too, apart from people."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    model: str
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    reply_price: Annotated[float, Meta(ge=0)] = 0.0
    battles: Annotated[int, Meta(ge=1, le=1000)] = 20
    """How many it judges at most in one turn of its job."""
    every_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """It leaves battles alone that were answered less than so long ago and have no vote: they may go on."""


class ArenaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an arena is run. docs/reference/server.md describes each field."""

    models: tuple[ArenaModel, ...] = ()
    sampling: Sampling = "uniform"
    """How pairs are drawn: all alike, or those with fewer votes more often (`running.pair_probabilities`)."""
    turns: Annotated[int, Meta(ge=1, le=50)] = 8
    """Most questions of one battle."""
    without_image: bool = False
    """Take questions without an image, too; for models that can be asked so."""
    question_characters: Annotated[int, Meta(ge=1, le=20_000)] = 2000
    examples: tuple[str, ...] = ()
    """Where images to try come from: benchmarks, with their questions, or folders of images."""
    examples_each: Annotated[int, Meta(ge=1, le=100)] = 4
    runs: tuple[str, ...] = ()
    """Folders of runs whose replies are voted on with no model running."""
    judge: JudgeSettings | None = None
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
        names = [model.name for model in self.models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two models are named {twice[0]!r}; give each a name of its own")


def read_arena_file(file: Path) -> Mapping[str, Any]:
    """The content of the TOML file of an arena alone, checked. Raises DataError."""
    try:
        content: dict[str, Any] = msgspec.toml.decode(read_text(file), type=dict[str, Any])
        msgspec.convert(content, ArenaSettings)
    except OSError as error:
        raise DataError(
            f"{file} cannot be read ({error.strerror}); give --arena demo, or a TOML file"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{file}: {error}; docs/reference/server.md has the fields of an arena"
        ) from None
    return content
