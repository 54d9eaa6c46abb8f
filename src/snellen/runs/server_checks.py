"""Check whether the servers of a run's models state the same as when they replied before."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from snellen.models.base import AsyncModel, DescribesServer, Model

ServerFacts = dict[str, str]
"""What a model's servers state about it (`DescribesServer`)."""


def query_servers(models: Mapping[str, Model | AsyncModel]) -> dict[str, ServerFacts]:
    """Query the servers of models for facts about what they serve, such as the version of a model.

    Args:
        models: The models by role.

    Returns:
        The facts by role. Models without a server, or whose server states nothing, are absent.
    """
    served_models = {}
    for role, model in models.items():
        if isinstance(model, DescribesServer):
            served_models[role] = model
    if not served_models:
        return {}
    # Imported here because most commands do not need asyncio, and loading it takes time.
    from snellen.runs.async_driver import run_async

    facts_by_role: dict[str, ServerFacts] = {}

    async def query_all() -> None:
        """Query the models one after the other, and close each of them."""
        for role, model in served_models.items():
            try:
                facts = await model.server_facts()
            finally:
                await model.close()
            if facts:
                facts_by_role[role] = facts

    run_async(query_all())
    return facts_by_role


def changed_server_fact(earlier: Mapping[str, Collection[str]], now: ServerFacts) -> str:
    """Describe the first fact about itself, such as its version, that a server states differently than before.

    Args:
        earlier: By the name of a fact, the values that were stated before or that the user accepted.
        now: The values that are stated now. A fact that is missing in either is not compared.

    Returns:
        A text such as `version was 1.0, is 1.1`; empty if nothing changed.
    """
    for name, value in sorted(now.items()):
        accepted_values = earlier.get(name, ())
        if accepted_values and value not in accepted_values:
            before = " or ".join(sorted(accepted_values))
            return f"{name} was {before}, is {value}"
    return ""
