"""Report the progress of a run to a listener."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from snellen.runs.drivers import ProgressCallback, ProgressUpdate
from snellen.runs.plan import RunPlan
from snellen.runs.work_items import count_planned_questions


class RunProgress(Struct, frozen=True):
    """State of one model's run.

    Examples:
        >>> states = []
        >>> _ = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, progress=states.append)
        >>> states[-1].done, states[-1].total
        (4, 4)
    """

    model: str
    folder: str
    """Folder of the run, in which every reply is stored as soon as it arrives."""
    done: int
    """Finished questions, counted once per protocol; each turn of a dialogue is a question."""
    total: int
    """Questions of the run, counted like `done`."""
    requests: int = 0
    """Requests of this session that were answered or failed."""
    failures: int = 0
    """Requests of this session that failed."""
    different: int = 0
    """Different questions in `total` if several protocols share questions, and 0 otherwise."""
    stored: int = 0
    """Questions of `done` for which this session had nothing to ask, because all replies were stored."""


class SessionPace:
    """Rate at which a session finishes questions.

    Replies of earlier sessions and the time before the first reply do not count.
    """

    def __init__(self) -> None:
        self._after_first_batch: tuple[float, int, int] | None = None
        """The time, the number of requests and the number of finished questions after the first batch of requests."""

    def rate(self, now: float, requests: int, done: int) -> float | None:
        """Return questions per second, or None until a question was finished after the first batch.

        Args:
            now: The time in seconds.
            requests: Requests of this session until now.
            done: Finished questions, without those for which this session had nothing to ask.
        """
        if self._after_first_batch is None:
            # The duration of the first batch is unknown, because the time at which it began is unknown.
            if requests:
                self._after_first_batch = now, requests, done
            return None
        first_time, first_requests, first_done = self._after_first_batch
        if requests <= first_requests:
            if requests:
                self._after_first_batch = first_time, requests, done
            return None
        if done <= first_done or now <= first_time:
            return None
        return (done - first_done) / (now - first_time)


ProgressListener = Callable[[RunProgress], object]
"""A function that receives the progress of a run."""


def ignore_progress(state: RunProgress) -> None:
    """Do nothing; the listener of a run whose progress is not shown.

    Examples:
        >>> sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, progress=sn.ignore_progress).value()
        1.0
    """


def progress_of(
    plan: RunPlan, listener: ProgressListener, *, of_worker: bool = False
) -> ProgressCallback:
    """Return a callback for drivers that adds up updates and reports the state to a listener.

    The listener is called once at the start, before any update.

    Args:
        plan: The run.
        listener: Called with the state after each update.
        of_worker: Whether the total is the share of the plan's worker, not that of all workers.
    """
    if listener is ignore_progress:
        return lambda update: None
    [model] = plan.question.models
    total, different = count_planned_questions(plan, of_worker=of_worker)
    shown_different = different if different != total else 0
    state = RunProgress(model, str(plan.folder), 0, total, different=shown_different)
    listener(state)

    def update_state(update: ProgressUpdate) -> None:
        """Add an update to the state, and pass the state on."""
        nonlocal state
        state = replace(
            state,
            done=state.done + update.questions,
            requests=state.requests + update.requests,
            failures=state.failures + update.failures,
            stored=state.stored + update.stored,
        )
        listener(state)

    return update_state
