"""Raise, after a run, what its user has to know: spent budgets, failed requests, missing benchmarks."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.callers import for_caller
from snellen.common.paths import shell_word
from snellen.errors import AbsentBenchmarkError, ErrorBudgetError, SpentBudgetError
from snellen.runs.runner import RunOutcome

MAX_SHOWN_REASONS = 3


def check_budget(outcome: RunOutcome, budget: float) -> None:
    """Check that not too many requests of a run have failed, separately for each model.

    Requests that were answered in earlier sessions of the run count as well, so that a repeated command, which sends
    only what failed, is not above the budget for that reason.

    Args:
        outcome: What happened in the latest session.
        budget: The largest share of requests that may fail, in [0, 1].

    Raises:
        ErrorBudgetError: A larger share of the requests to a model failed.

    Examples:
        >>> from snellen.plugin_api import evaluate_spec, run_spec
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 4, "report": False}
        >>> [run] = evaluate_spec(run_spec(fields))
        >>> check_budget(run.outcome, 0.05)  # no request failed
    """
    for role, failed in outcome.failed.items():
        total = outcome.stored.get(role, 0) + outcome.answered.get(role, 0) + failed
        if failed <= budget * total:
            continue
        to_role = f" to the {role}" if role else ""
        allowed = for_caller(f"--error-budget {budget:.1%}", f"error_budget={budget:g}")
        again = for_caller("run the same command", "repeat the call")
        raise ErrorBudgetError(
            f"{failed} of {total} requests{to_role} failed ({failed / total:.1%}, {allowed}): "
            f"{_main_reasons(outcome)}; they count as errors in {outcome.folder}; {again} to retry them"
        )


def _main_reasons(outcome: RunOutcome) -> str:
    """Return the most frequent reasons for failed requests, such as `12 x timeout, 3 x rate limit`.

    A single reason is returned without a count.
    """
    reasons = sorted(outcome.reasons.items(), key=lambda item: -item[1])
    if len(reasons) == 1:
        [(reason, _)] = reasons
        return reason
    shown = [f"{count} x {reason}" for reason, count in reasons[:MAX_SHOWN_REASONS]]
    n_others = len(reasons) - MAX_SHOWN_REASONS
    if n_others > 0:
        plural = "" if n_others == 1 else "s"
        return f"{', '.join(shown)}, and {n_others} other reason{plural}"
    return ", ".join(shown)


def check_spent(outcome: RunOutcome) -> None:
    """Raise SpentBudgetError if a session stopped because its budget of cost, requests or time was spent."""
    if not outcome.exhausted_budget:
        return
    folder = outcome.folder
    answered = f"{sum(outcome.answered.values()):,} requests were answered in this session"
    if outcome.paid:
        answered += f" at a cost of {outcome.paid:.3g}"
    what_next = for_caller(
        f"repeat the command to continue, or run `snellen score {shell_word(folder)}` to score what is there",
        f"repeat the call to continue, or call sn.score({str(folder)!r}) to score what is there",
    )
    raise SpentBudgetError(
        f"stopped at {outcome.exhausted_budget}: {answered}, and all replies are stored in {folder}; {what_next}"
    )


def check_absent(faults: Mapping[str, str]) -> None:
    """Raise AbsentBenchmarkError if benchmarks could not be fetched and were left out.

    Args:
        faults: By the name of a benchmark, why it could not be fetched; {} if all were fetched.
    """
    if not faults:
        return
    first_fault = next(iter(faults.values()))
    attempt = for_caller("command", "call")
    raise AbsentBenchmarkError(
        f"skipped: {', '.join(faults)}; {first_fault}; repeat the {attempt} when the files can be fetched, or use "
        f"{for_caller('--strict (strict=True)', 'strict=True')} to stop before any request is sent"
    )
