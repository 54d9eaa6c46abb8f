"""Raise, after a run, what its user has to know: spent budgets, failed requests, missing benchmarks."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.common.paths import as_word
from snellen.errors import AbsentBenchmarkError, ErrorBudgetError, SpentBudgetError
from snellen.runs.runner import RunOutcome

MOST_REASONS_SHOWN = 3


def check_budget(outcome: RunOutcome, budget: float) -> None:
    """Check how many of this session's requests failed, for each model of a run.

    Args:
        outcome: The outcome of the session.
        budget: Share of failed requests that is allowed, in [0, 1].

    Raises:
        ErrorBudgetError: A larger share of the requests to a model failed.
    """
    for role, failed in outcome.failed.items():
        total = outcome.answered.get(role, 0) + failed
        if failed <= budget * total:
            continue
        to_role = f" to the {role}" if role else ""
        raise ErrorBudgetError(
            f"{failed} of {total} requests{to_role} failed ({failed / total:.1%}, --error-budget {budget:.1%}): "
            f"{_main_reasons(outcome)}; "
            f"they are counted as errors in {outcome.folder}; run the same command to ask them again"
        )


def _main_reasons(outcome: RunOutcome) -> str:
    """Return the most frequent reasons of failures, with their counts if there are several."""
    reasons = sorted(outcome.reasons.items(), key=lambda item: -item[1])
    if len(reasons) == 1:
        [(reason, _)] = reasons
        return reason
    shown = [f"{count} x {reason}" for reason, count in reasons[:MOST_REASONS_SHOWN]]
    more = len(reasons) - MOST_REASONS_SHOWN
    if more > 0:
        return f"{', '.join(shown)}, and {more} other reasons"
    return ", ".join(shown)


def check_spent(outcome: RunOutcome) -> None:
    """Raise SpentBudgetError if a session stopped because its budget of cost, requests or time was spent."""
    if not outcome.spent:
        return
    folder = outcome.folder
    answered = f"{sum(outcome.answered.values()):,} requests were answered now"
    if outcome.paid:
        answered += f" for {outcome.paid:.3g} at the price given"
    raise SpentBudgetError(
        f"stopped at {outcome.spent}: {answered}, all answers are kept in {folder}; the same command goes on, "
        f"`snellen score {as_word(folder)}` scores what is there"
    )


def check_absent(faults: Mapping[str, str]) -> None:
    """Raise AbsentBenchmarkError if benchmarks were left out.

    Args:
        faults: Why each of these benchmarks could not be fetched, by name.
    """
    if not faults:
        return
    first_fault = next(iter(faults.values()))
    raise AbsentBenchmarkError(
        f"left out: {', '.join(faults)}; {first_fault}; the same command asks what was left out once it can be fetched, "
        "and --strict (strict=True) stops before anything is asked"
    )
