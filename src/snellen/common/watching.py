"""Find out whether a user sees what this process prints, in a notebook or on a terminal."""

from __future__ import annotations

import sys


def is_notebook() -> bool:
    """Return whether this is a kernel of Jupyter: a shell that shows more than text."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def is_watched() -> bool:
    """Return whether this is a notebook, or stderr is a terminal."""
    return is_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def print_line(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr)  # noqa: T201
