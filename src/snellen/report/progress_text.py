"""The progress of runs as lines of text, or as a bar in a notebook."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from snellen.common.watching import is_notebook, print_line
from snellen.formats.shown_text import short_name
from snellen.report.rendering import escaped
from snellen.runs.run_progress import ProgressListener, RunProgress, SessionPace

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_BARS = 0.2


class ProgressReporter:
    """Text about the progress of runs, at most once per interval for each run.

    Args:
        seconds: Seconds between two texts about the same run.
        clock: Function that returns the time in seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._paces: dict[str, SessionPace] = defaultdict(SessionPace)
        self._last_shown: dict[str, float] = {}

    def due(self, state: RunProgress) -> str:
        """Return a line on the progress of a run, if it is time for one.

        For example `120 of 400 questions done, 3.1/s, 90 s left, 130 requests, 2 failed`.

        Returns:
            The line; empty if less than the chosen number of seconds has passed since the last one. A complete run
            always has a line.
        """
        now = self._clock()
        asked_now = state.done - state.stored
        per_second = self._paces[state.folder].rate(now, state.requests, asked_now)
        is_complete = state.done == state.total
        seconds_since_last = now - self._last_shown.get(state.folder, -math.inf)
        if seconds_since_last < self._seconds and state.done < state.total:
            return ""
        self._last_shown[state.folder] = now

        text = f"{state.done:,} of {state.total:,} questions done"
        if state.different:
            text += f" ({state.different:,} different ones, under several protocols)"
        if per_second:
            text += f", {per_second:,.1f}/s"
            if not is_complete:
                seconds_left = (state.total - state.done) / per_second
                text += f", {seconds_left:,.0f} s left"
        requests = "request" if state.requests == 1 else "requests"
        text += f", {state.requests:,} {requests}"
        if is_complete and not state.different and not state.stored:
            each, rest = divmod(state.requests, state.total or 1)
            if each > 1 and not rest:
                text += f" ({each:,} for each question)"
        return f"{text}, {state.failures:,} failed"


def progress_lines(write: Callable[[str], object]) -> ProgressListener:
    """Return a listener that writes a line every ten seconds, and one when a run is complete.

    It writes nothing before the first request, so that the first line counts all replies of earlier sessions.
    """
    progress = ProgressReporter(SECONDS_BETWEEN_LINES)

    def listen(state: RunProgress) -> None:
        """Write a line about the progress of a run. A run that was complete before is not mentioned."""
        was_complete_before = 0 < state.done == state.total
        if not state.requests and not was_complete_before:
            return
        line = progress.due(state)
        if line:
            write(f"{short_name(state.model)}: {line}")

    return listen


def shown_progress() -> ProgressListener:
    """Return a listener that shows progress: a bar per run in a notebook, otherwise a line on stderr every ten seconds.

    Examples:
        >>> sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, progress=sn.shown_progress()).value()
        1.0
    """
    return _bars() if is_notebook() else progress_lines(print_line)


def _bars() -> ProgressListener:
    """Return a listener that shows a bar for each run in a notebook, and updates it."""
    from IPython.display import display

    progress = ProgressReporter(SECONDS_BETWEEN_BARS)
    bars: dict[str, Any] = {}

    def listen(state: RunProgress) -> None:
        """Show the progress of a run as a bar in a notebook. Each run has one bar, which is updated."""
        line = progress.due(state)
        if not line:
            return
        name = short_name(state.model)
        bar = f'<progress value="{state.done}" max="{state.total}"></progress>'
        bundle = {
            "text/plain": f"{name}: {line}",
            "text/html": f"<div>{escaped(name)} {bar} {escaped(line)}</div>",
        }
        if state.folder in bars:
            bars[state.folder].update(bundle, raw=True)
        else:
            bars[state.folder] = display(bundle, raw=True, display_id=True)

    return listen
