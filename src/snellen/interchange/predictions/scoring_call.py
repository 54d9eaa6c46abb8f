"""Write, for messages to the user, the command or Python call that would score a file of predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import for_caller, setting


class Given(Struct, frozen=True):
    """The settings that the user passed when scoring a file of predictions, such as `columns` and `model`."""

    benchmark: str = ""
    form: str = ""
    columns: Mapping[str, str | Sequence[str]] = {}
    answer_is: str = ""
    to: Path | None = None
    model: str = ""
    flags: tuple[str, ...] = ()
    """Further flags of `snellen score`, with their values."""


_GIVEN: ContextVar[Given | None] = ContextVar("_GIVEN", default=None)


@contextmanager
def given(**said: Any) -> Iterator[None]:
    """Within a `with` block, make `scoring_call` repeat settings that the user has already passed.

    An error message may suggest a command such as `snellen score replies.csv --column
    answer=NAME`. If the user had set `model="mine"` before, the suggestion has to contain that too,
    or following it would lose the setting.

    Args:
        said: Settings by the names of the fields of `Given`, such as `columns` or `model`. They are
            added to those of an enclosing block.

    Examples:
        >>> with given(columns={"reply": ["said"]}, model="mine"):
        ...     scoring_call(Path("replies.csv"), columns={"answer": "NAME"})
        "sn.import_run('replies.csv', columns={'reply': 'said', 'answer': 'NAME'}, model='mine')"
    """
    token = _GIVEN.set(replace(_GIVEN.get() or Given(), **said))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def scoring_call(
    path: Path, *, benchmark: str = "", columns: Mapping[str, str | Sequence[str]] | None = None
) -> str:
    """Return the text of a command or Python call that scores a file of predictions.

    Users of the command line get `snellen score ...`, and users of Python get `sn.import_run(...)`.
    The text has the settings passed here and those that `given` keeps; where both set the same
    thing, those passed here win.

    Examples:
        >>> scoring_call(Path("replies.csv"), benchmark="mmstar")
        "sn.import_run('replies.csv', benchmark='mmstar')"
    """
    said = _GIVEN.get() or Given()
    benchmark = benchmark or said.benchmark
    columns = {**said.columns, **(columns or {})}
    settings: list[str] = []
    if benchmark:
        settings.append(setting("benchmark", benchmark))
    if said.form:
        settings.append(for_caller(f"--as {said.form}", f"form={said.form!r}"))
    if columns:
        settings.append(setting("columns", columns))
    if said.answer_is:
        settings.append(setting("answer_is", said.answer_is))
    if said.to:
        settings.append(setting("to", str(said.to)))
    if said.model:
        settings.append(setting("model", said.model))
    command = " ".join([f"snellen score {path}", *settings, *said.flags])
    call = ", ".join([repr(str(path)), *settings])
    return for_caller(command, f"sn.import_run({call})")
