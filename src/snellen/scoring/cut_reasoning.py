"""Replies that never came out of their reasoning: how many, and what to do."""

from __future__ import annotations

from snellen.models.base import model_string, parse_spec
from snellen.models.reasoning_budgets import DEFAULT_REASONING_TOKENS
from snellen.scoring.scored_run import ScoredRun


def cut_reasoning_sentence(scored: ScoredRun) -> str:
    """One line on a run's replies that the length limit cut before an answer; empty when there are none."""
    read = sum(len(benchmark.predictions) for benchmark in scored.benchmarks)
    cut = sum(p.reason == "reasoning cut off" for benchmark in scored.benchmarks for p in benchmark.predictions)
    if not cut:
        return ""
    model = scored.manifest.model
    if ":" not in model:
        way_out = "raise --max-new-tokens"
    else:
        given = parse_spec(model).options.get("reasoning_tokens", "")
        more = 2 * int(given) if given.isdecimal() and int(given) else DEFAULT_REASONING_TOKENS
        bare = model.replace(f"reasoning_tokens={given}", "").rstrip("?&") if given else model
        way_out = f"give it room to reason: {model_string(bare, reasoning_tokens=more)}"
    return f"{cut} of {read} replies were cut in their reasoning, before any answer; {way_out} (and another --name)"
