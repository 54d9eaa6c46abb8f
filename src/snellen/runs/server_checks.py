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
    """Describe the first fact about itself, such as its version, that a server states differently than before.

    Args:
        earlier: By the name of a fact, the values that were stated before or that the user accepted.
        now: The values that are stated now. A fact that is missing in either is not compared.

    Returns:
        A text such as `version was 1.0, is 1.1`; empty if nothing changed.
    """
    for name, text in sorted(now.items()):
        before = earlier.get(name, ())
        if before and text not in before:
            return f"{name} was {' or '.join(sorted(before))}, is {text}"
    return ""
