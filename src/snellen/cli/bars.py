"""Progress bars for runs and downloads on a terminal."""

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
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from snellen.formats.shown_text import short_name
from snellen.runs.run_progress import ProgressListener, RunProgress, SessionPace

FULL_WIDTH = 120
"""In a terminal with fewer columns, the bar is shorter, and the word `questions` is left out."""


def _shorten_name(name: str, width: int) -> str:
    """Shorten a name so that the bar, counts, rate, remaining time and note have room in the same line.

    Args:
        name: The name. If it is too long, its middle is replaced by an ellipsis.
        width: Columns of the terminal.
    """
    width_of_others = 69 if width < FULL_WIDTH else 113
    max_length = max(width - width_of_others, 11)
    if len(name) <= max_length:
        return name
    n_first = max_length // 2
    n_last = (max_length - 1) // 2
    return f"{name[:n_first]}…{name[-n_last:]}"


@contextmanager
def run_bars(console: Console) -> Iterator[ProgressListener]:
    """Show a progress bar for each run, with counts, rate and remaining time, inside the block.

    Yields:
        The listener that receives the progress of the runs.
    """
    is_narrow = console.width < FULL_WIDTH
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=8 if is_narrow else 40),
        MofNCompleteColumn(),
    ]
    if not is_narrow:
        columns.append(TextColumn("questions"))
    columns += [
        TextColumn(
            "[progress.data.speed]{task.fields[rate]} [progress.remaining]{task.fields[remaining]}"
        ),
        TextColumn("{task.fields[note]}", markup=False),
    ]
    with Progress(*columns, console=console) as bars:
        task_by_folder: dict[str, TaskID] = {}
        paces: dict[str, SessionPace] = defaultdict(SessionPace)

        def listen(state: RunProgress) -> None:
            if state.folder not in task_by_folder:
                name = _shorten_name(short_name(state.model), console.width)
                task_by_folder[state.folder] = bars.add_task(
                    name, total=state.total, note="", rate="", remaining=""
                )
            noun = "request" if state.requests == 1 else "requests"
            note = f"{state.requests:,} {noun}"
            if state.failures:
                note += f", {state.failures:,} failed"
            if state.different and not is_narrow:
                note += f", {state.different:,} different questions"

            done_in_session = state.done - state.stored
            rate = paces[state.folder].rate(bars.get_time(), state.requests, done_in_session)
            rate_text = ""
            remaining = "-:--:--"
            if rate:
                n_decimals = 1 if rate < 100 else 0
                rate_text = f"{rate:,.{n_decimals}f}/s"
                seconds = round((state.total - state.done) / rate)
                remaining = str(timedelta(seconds=seconds))
            bars.update(
                task_by_folder[state.folder],
                completed=state.done,
                note=note,
                rate=rate_text,
                remaining=remaining,
            )

        yield listen


class FetchBar:
    """Progress bar for the file that is being fetched. The bar of the next file replaces it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._file = ""
        """Name of the file that the bar is for."""
        self._bar: tuple[Progress, TaskID] | None = None
        """The bar; None if no bar is shown."""

    def show(self, name: str, done: int, size: int) -> None:
        """Show how much of a file is fetched.

        Args:
            name: The name of the file.
            done: The bytes that are fetched.
            size: Its size in bytes; 0 if it is not known.
        """
        if self._bar is None or self._file != name:
            self.end()
            self._bar = self._start_bar(name, size)
            self._file = name
        bars, task = self._bar
        bars.update(task, completed=done, total=size or None)
        if done == size:
            self.end()

    def _start_bar(self, name: str, size: int) -> tuple[Progress, TaskID]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        bars = Progress(*columns, console=self._console, transient=True)
        task = bars.add_task(_shorten_name(name, self._console.width), total=size or None)
        bars.start()
        return bars, task

    def end(self) -> None:
        """Remove the bar, if one is shown."""
        if self._bar is not None:
            bars, _ = self._bar
            bars.stop()
            self._bar = None
