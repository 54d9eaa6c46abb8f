"""Models, benchmarks and protocols that the form for a new run offers."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from snellen import registry
from snellen.building.benchmark import own_benchmarks
from snellen.catalogue import entries, suite_members
from snellen.models.embedded import TRAINED
from snellen.runs.finding import is_ready


class ChoiceGroup(Struct, frozen=True):
    """Choices under one heading of a list."""

    title: str
    names: tuple[str, ...]


class OfferedChoices(Struct, frozen=True):
    """Choices of a form, in groups."""

    models: tuple[ChoiceGroup, ...]
    benchmarks: tuple[ChoiceGroup, ...]
    protocols: tuple[str, ...]

    def is_model(self, name: str) -> bool:
        """Return whether the list of models has a name."""
        return any(name in group.names for group in self.models)

    def unlisted_benchmarks(self, text: str) -> str:
        """Return the benchmarks of a text that are in no list, separated by spaces."""
        listed: set[str] = set()
        for group in self.benchmarks:
            listed.update(group.names)
        return " ".join(name for name in text.split() if name not in listed)

    def unlisted_protocols(self, text: str) -> str:
        """Return the protocols of a text that are in no list, separated by spaces."""
        return " ".join(name for name in text.split() if name not in self.protocols)


def offered_choices(models_of_runs: Iterable[str]) -> OfferedChoices:
    """Collect the choices of the form.

    Args:
        models_of_runs: Model strings of the runs that are shown.
    """
    shipped = tuple(f"snellen:{name}" for name in TRAINED)
    models_in_runs = tuple(sorted(set(models_of_runs) - set(shipped)))
    ready = []
    to_fetch = []
    for name, spec in entries().items():
        if is_ready(spec):
            ready.append(name)
        else:
            to_fetch.append(name)
    benchmarks = (
        ChoiceGroup("Suites", tuple(suite_members())),
        ChoiceGroup("Your own", tuple(own_benchmarks())),
        ChoiceGroup("On this machine", tuple(ready)),
        ChoiceGroup("Fetched by the run", tuple(to_fetch)),
    )
    models = (
        ChoiceGroup("In your runs", models_in_runs),
        ChoiceGroup("Shipped with Snellen", shipped),
    )
    return OfferedChoices(
        tuple(group for group in models if group.names),
        tuple(group for group in benchmarks if group.names),
        tuple(registry.names("protocols")),
    )
