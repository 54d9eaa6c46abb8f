"""What the operator of an arena decides: `[feature.arena]` of the server's configuration, or the file of `--arena`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from snellen.plugin_api import DataError, read_text

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
    reply_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 512
    """The longest reply."""


class JudgeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that votes on battles too, apart from people."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    model: str
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
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
    question_characters: Annotated[int, Meta(ge=1, le=20_000)] = 2000
    examples: tuple[str, ...] = ()
    """Where pictures to try come from: benchmarks, with their questions, or folders of pictures."""
    examples_each: Annotated[int, Meta(ge=1, le=100)] = 4
    runs: tuple[str, ...] = ()
    """Folders of runs whose replies are voted on with no model running."""
    judge: JudgeSettings | None = None
    least_votes: Annotated[int, Meta(ge=1)] = 1
    """The number of votes before which nothing is rated."""
    resamples: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Of the bootstrap behind the intervals on the page."""

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two models are called {twice[0]!r}; give each its name")


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
