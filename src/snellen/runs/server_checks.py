"""Check whether the servers of a run's models state the same as when they replied before."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from snellen.models.base import AsyncModel, DescribesServer, Model

ServerFacts = dict[str, str]
"""What a model's servers state about it (`DescribesServer`)."""


def ask_servers(models: Mapping[str, Model | AsyncModel]) -> dict[str, ServerFacts]:
    """Ask the servers of models what they serve. Models whose servers state nothing are absent from the result."""
    described = {
        role: model for role, model in models.items() if isinstance(model, DescribesServer)
    }
    if not described:
        return {}
    from snellen.runs.async_driver import run_async

    stated: dict[str, ServerFacts] = {}

    async def ask() -> None:
        for role, model in described.items():
            try:
                facts = await model.server_facts()
            finally:
                await model.close()
            if facts:
                stated[role] = facts

    run_async(ask())
    return stated


def changed_server_fact(earlier: Mapping[str, Collection[str]], now: ServerFacts) -> str:
    """Return the first fact that a server states differently than before, as text; empty if there is none.

    Args:
        earlier: By fact, the values that were stated before, or that the user accepted.
        now: What is stated now. A fact that is missing from either is not compared.
    """
    for name, text in sorted(now.items()):
        before = earlier.get(name, ())
        if before and text not in before:
            return f"{name} was {' or '.join(sorted(before))}, is {text}"
    return ""
