"""Errors that a user sees: one line each, saying what is wrong, where, and what to do."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class SnellenError(Exception):
    """An error that the user can fix. Its message is one line: where, what is wrong, and what to do.

    `exit_code` is the exit code of the command line.

    Examples:
        >>> try:
        ...     sn.evaluate("snellen:oracle", "eyechart/shap")
        ... except sn.SnellenError as error:
        ...     print(error, error.exit_code)
        unknown benchmark 'eyechart/shap'; did you mean eyechart/shape? 2
    """

    exit_code = 2


class DataError(SnellenError):
    """Input that cannot be used: a wrong row or setting, a broken image, a missing file.

    Examples:
        >>> sn.evaluate("snellen:oracle", "eyechart/shape", limit=0)
        Traceback (most recent call last):
        snellen.errors.DataError: limit: expected a whole number >= 1
    """


class WrongRowsError(DataError):
    """Rows of a file that cannot be used. `faults` has a line for each, and the message shows the first `SHOWN` lines."""

    SHOWN = 10

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        lines = list(faults[: self.SHOWN])
        n_hidden = len(faults) - self.SHOWN
        if n_hidden > 0:
            noun = "row" if n_hidden == 1 else "rows"
            lines.append(f"and {n_hidden:,} more wrong {noun}")
        super().__init__("\n".join(lines))


class BuildLimitError(SnellenError):
    """A build whose images together have more pixels than are allowed. It ends the build, unlike the fault of a row."""


class UnknownNameError(SnellenError):
    """A name that does not exist: a benchmark, model, protocol, metric, field ...

    Examples:
        >>> sn.load_model("snellen:tinny")
        Traceback (most recent call last):
        snellen.errors.UnknownNameError: unknown embedded model 'tinny'; did you mean tiny?
    """


class NoSourceError(DataError):
    """A benchmark whose files are not here and cannot be fetched."""


class NotFetchedError(NoSourceError):
    """A benchmark whose files can be fetched from somewhere, but not now."""


class HookError(SnellenError):
    """Code of a suite, of a package or of the user cannot be imported, raised an error, or returned something wrong.

    Args:
        fault: What is wrong, such as "the metric 'brevity' cannot be loaded".
        cause: The error that the code raised. Its type and text are added to the message, in one line.
    """

    def __init__(self, fault: str, cause: BaseException | None = None) -> None:
        if cause is not None:
            raised = f"{type(cause).__name__}: {cause}"
            fault = f"{fault}: {' '.join(raised.split())}"
        super().__init__(fault)


class ModelError(SnellenError):
    """A model that cannot be loaded, or does not support what a run needs.

    Examples:
        >>> sn.load_model("hf:org/name?dtyp=bfloat16")
        Traceback (most recent call last):
        snellen.errors.ModelError: hf:org/name?dtyp=bfloat16: unknown option 'dtyp'; did you mean dtype?
    """


class StoreError(SnellenError):
    """A folder of a run that cannot be read or written, or is not a run.

    Examples:
        >>> sn.load_run("photos")
        Traceback (most recent call last):
        snellen.errors.StoreError: there is no folder photos; make a run with ...
    """


class Interrupted(KeyboardInterrupt):
    """A signal that ends the program: Ctrl-C, SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def interrupted_code(stopped: BaseException) -> int:
    """Return the exit code of a program that a signal ended: 128 plus the number of the signal, as shells expect it.

    If the exception does not say which signal it was, Ctrl-C (SIGINT) is assumed.
    """
    number = stopped.number if isinstance(stopped, Interrupted) else signal.SIGINT
    return 128 + number


class MissingExtraError(SnellenError):
    """An optional dependency is missing that the requested feature needs.

    Examples:
        >>> error = MissingExtraError("av", "video", "clips")
        >>> str(error).partition(":")[0]
        'clips needs the package av'
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        from snellen.installation import install_line

        super().__init__(
            f"{purpose} needs the package {package}: {install_line(extra)}"
            + (" (for a CPU build, install that torch first)" if extra == "hf" else "")
        )


@contextmanager
def naming_missing_packages(purpose: str) -> Iterator[None]:
    """Turn a failed import of a package that is not installed into MissingExtraError, with the line that installs it.

    A missing module of Snellen itself passes unchanged: that is a fault of Snellen, which no extra mends.
    """
    from snellen.installation import PACKAGE, requirement_of

    try:
        yield
    except ModuleNotFoundError as error:
        module = error.name or ""
        if module.partition(".")[0] == PACKAGE:
            raise
        package, extra = requirement_of(module)
        raise MissingExtraError(package, extra, purpose) from error


class SpentBudgetError(SnellenError):
    """A run asked no more since --max-requests, --max-cost or --max-time was reached; the answers are stored.

    Examples:
        >>> sn.evaluate("snellen:uniform", "eyechart/shape", limit=20, max_requests=8)
        Traceback (most recent call last):
        snellen.errors.SpentBudgetError: ...
    """

    exit_code = 4


class PendingBatchesError(SnellenError):
    """A run whose requests are in batches that have not ended. The same call later fetches the replies.

    `sn.evaluate("openai:gpt-4o-mini?batch=true", "eyechart", wait=False)` raises it.

    Examples:
        >>> error = sn.PendingBatchesError("1 batch has not ended; run the same command again", ["batch_68a1"])
        >>> error.batches
        ('batch_68a1',)
    """

    exit_code = 5

    def __init__(self, message: str, batches: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.batches = tuple(batches)
        """The service's ids of the batches."""


class ErrorBudgetError(SnellenError):
    """More requests failed than `error_budget` allows. The replies that arrived are stored.

    Examples:
        >>> from snellen.plugin_api import Failure
        >>> response = sn.Response(error=Failure("connection", "it was reset"))
        >>> model = sn.Scripted(lambda request: response, fingerprint="fails")
        >>> sn.evaluate(model, "eyechart/shape", limit=2)
        Traceback (most recent call last):
        snellen.errors.ErrorBudgetError: ...
    """

    exit_code = 3


class AbsentBenchmarkError(SnellenError):
    """A run left out benchmarks that could not be fetched; all others were asked.

    Args:
        message: The message.
        reasons: Why each benchmark could not be fetched, by name.
    """

    exit_code = 3

    def __init__(self, message: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reasons = dict(reasons or {})


class SuiteWarning(UserWarning):
    """A suite of another package, or an entry of one, that cannot be read and is left out."""
