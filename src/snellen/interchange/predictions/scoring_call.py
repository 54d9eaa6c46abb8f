"""What scores a file of predictions, for messages: a command, or a call in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from snellen.callers import for_caller, setting


def scoring_call(
    path: Path, *, benchmark: str = "", columns: Mapping[str, str] | None = None
) -> str:
    """Return the command or the call that scores a file of predictions with these settings.

    Examples:
        >>> scoring_call(Path("replies.csv"), benchmark="mmstar")
        "sn.import_run('replies.csv', benchmark='mmstar')"
    """
    settings: list[str] = []
    if benchmark:
        settings.append(setting("benchmark", benchmark))
    if columns:
        settings.append(setting("columns", columns))
    command = " ".join([f"snellen score {path}", *settings])
    call = ", ".join([repr(str(path)), *settings])
    return for_caller(command, f"sn.import_run({call})")
