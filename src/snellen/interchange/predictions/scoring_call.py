"""What scores a file of predictions, for messages: a command, or a call in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from snellen.callers import for_caller, setting

_GIVEN: ContextVar[Mapping[str, Sequence[str]] | None] = ContextVar("_GIVEN", default=None)


@contextmanager
def columns_given(columns: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Keep the columns that the user named, by role, in the calls that messages of the block suggest.

    Examples:
        >>> with columns_given({"reply": ["said"]}):
        ...     scoring_call(Path("replies.csv"), columns={"answer": "NAME"})
        "sn.import_run('replies.csv', columns={'reply': 'said', 'answer': 'NAME'})"
    """
    token = _GIVEN.set(columns)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def scoring_call(
    path: Path, *, benchmark: str = "", columns: Mapping[str, str | Sequence[str]] | None = None
) -> str:
    """Return the command or the call that scores a file of predictions with these settings, and those of `columns_given`.

    Examples:
        >>> scoring_call(Path("replies.csv"), benchmark="mmstar")
        "sn.import_run('replies.csv', benchmark='mmstar')"
    """
    columns = {**(_GIVEN.get() or {}), **(columns or {})}
    settings: list[str] = []
    if benchmark:
        settings.append(setting("benchmark", benchmark))
    if columns:
        settings.append(setting("columns", columns))
    command = " ".join([f"snellen score {path}", *settings])
    call = ", ".join([repr(str(path)), *settings])
    return for_caller(command, f"sn.import_run({call})")
