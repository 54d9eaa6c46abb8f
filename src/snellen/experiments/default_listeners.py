"""Default listeners of an evaluation, which show progress and messages."""

from __future__ import annotations

from snellen.common.watching import is_watched, print_line
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.run_progress import ProgressListener, ignore_progress


def default_progress() -> ProgressListener:
    """Return a progress display for a terminal or notebook; otherwise a listener that ignores progress."""
    if not is_watched():
        return ignore_progress
    from snellen.report.progress_text import shown_progress  # loads templates

    return shown_progress()


def default_announce() -> Announce:
    """Return a function that prints lines on stderr in a terminal or notebook, and otherwise ignores them."""
    return print_line if is_watched() else announce_nothing
