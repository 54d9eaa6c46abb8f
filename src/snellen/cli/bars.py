"""The bars of runs on a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from snellen.formats.shown_text import short_name
from snellen.runs.run_progress import ProgressListener, RunProgress, SessionPace

MOST_OF_A_LINE = 120
"""A terminal with fewer columns has a shorter bar, and no room for what it counts."""


def _fitted(name: str, width: int) -> str:
    """A name that leaves bar, counts, rate, time left and note their place in a line; its middle goes first."""
    room = max(width - (69 if width < MOST_OF_A_LINE else 113), 11)
    return name if len(name) <= room else f"{name[: room // 2]}…{name[-((room - 1) // 2) :]}"


@contextmanager
def run_bars(console: Console) -> Iterator[ProgressListener]:
    """A bar for each run, with counts, rate and time left."""
    is_narrow = console.width < MOST_OF_A_LINE
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=8 if is_narrow else 40),
        MofNCompleteColumn(),
        *([] if is_narrow else [TextColumn("questions")]),
        TextColumn(
            "[progress.data.speed]{task.fields[rate]} [progress.remaining]{task.fields[remaining]}"
        ),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}
        paces: dict[str, SessionPace] = defaultdict(SessionPace)

        def listen(state: RunProgress) -> None:
            if state.folder not in tasks:
                name = _fitted(short_name(state.model), console.width)
                tasks[state.folder] = bars.add_task(
                    name, total=state.total, note="", rate="", remaining=""
                )
            failed = f", {state.failures:,} failed" if state.failures else ""
            different = (
                f", {state.different:,} different questions"
                if state.different and not is_narrow
                else ""
            )
            asked_now = state.done - state.stored
            rate = paces[state.folder].rate(bars.get_time(), state.requests, asked_now)
            requests = "request" if state.requests == 1 else "requests"
            bars.update(
                tasks[state.folder],
                completed=state.done,
                note=f"{state.requests:,} {requests}{failed}{different}",
                rate=f"{rate:,.{int(rate < 100)}f}/s" if rate else "",
                remaining=str(timedelta(seconds=round((state.total - state.done) / rate)))
                if rate
                else "-:--:--",
            )

        yield listen


class FetchBar:
    """A bar for the file that is being fetched, which the next one or `end` takes away."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[str, Progress, TaskID] | None = None

    def show(self, name: str, done: int, size: int) -> None:
        """`size` is 0 where it is not known."""
        if self._shown is None or self._shown[0] != name:
            self.end()
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
            bars = Progress(*columns, console=self._console, transient=True)
            self._shown = (
                name,
                bars,
                bars.add_task(_fitted(name, self._console.width), total=size or None),
            )
            bars.start()
        _, bars, task = self._shown
        bars.update(task, completed=done, total=size or None)
        if done == size:
            self.end()

    def end(self) -> None:
        if self._shown is not None:
            self._shown[1].stop()
            self._shown = None
