"""What the sentences of a report are made of: the numbers of each model, and differences from the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.capability import ALL, CAPABILITY, headlines_of
from snellen.analysis.paired.records import PairedDifference
from snellen.analysis.paired.standing import differences_from
from snellen.metrics.declaration import SHARE
from snellen.records import METHODS, Better, Estimate, Method
from snellen.report.run_view import ModelMethodRow, RunView, dimensions_of, mean_chance
from snellen.report.table import dimension_title


class DimensionShare(Struct, frozen=True):
    """How often a model is right in one dimension, all of whose benchmarks have options, and how often guessing is."""

    title: str
    estimate: Estimate
    chance: float


class ModelNumbers(Struct, frozen=True):
    """What the sentences say of one model, by one method."""

    name: str
    method: Method
    metric: str
    headline: Estimate
    unit: str = SHARE
    chance: float | None = None
    benchmarks: int = 1
    dimensions: tuple[DimensionShare, ...] = ()
    circular: Estimate | None = None
    instability: Estimate | None = None
    unparsed: Estimate | None = None
    errors: int = 0
    is_partial: bool = False
    better: Better = "higher"


def compared_views(views: Sequence[RunView]) -> list[RunView]:
    """The runs that sentences are about: models, unless all are Snellen's own instruments, by one convention."""
    models = [view for view in views if not _is_instrument(view)] or list(views)
    # Published numbers have scales of their own, which sentences do not know.
    return [view for view in models if view.run.convention == "standard"]


def _is_instrument(view: RunView) -> bool:
    manifest = view.run.manifest
    return manifest.model.startswith("snellen:") and "instrument" in manifest.fingerprint


def model_numbers(view: RunView) -> Iterator[ModelNumbers]:
    for line in view.method_rows:
        number, metric = line.overall("accuracy"), "accuracy"
        if number is None or number.estimate.value is None:
            number, metric = line.lookup(CAPABILITY, ALL, ALL), CAPABILITY
        if number is None or number.estimate.value is None:
            continue
        headlines = {headlines_of(scored)[-1] for scored in view.run.benchmarks}
        shown = headlines.pop() if metric == CAPABILITY and len(headlines) == 1 else metric
        yield ModelNumbers(
            view.label, line.method, shown, number.estimate, number.unit,
            mean_chance(view.run.benchmarks) if metric == "accuracy" and number.unit == SHARE else None,
            view.benchmark_counts[number.protocol, metric] or len(view.run.benchmarks),
            tuple(_dimension_shares(line)),
            *_beside(line),
            number.estimate.errors + number.estimate.absent, bool(number.partial),
            view.results_by_key[number.protocol, view.substitutes.get(metric, metric), ALL, ALL, ""].better,
        )  # fmt: skip


def _beside(line: ModelMethodRow) -> tuple[Estimate | None, Estimate | None, Estimate | None]:
    """Circular accuracy, instability and the share of unparsed replies, in the units that tables have them in."""
    circular, instability, unparsed = map(line.overall, ("circular_accuracy", "instability", "unparsed_rate"))
    return (
        circular.estimate if circular and circular.unit == SHARE else None,
        instability.estimate if instability else None,
        unparsed.estimate if unparsed else None,
    )


def _dimension_shares(line: ModelMethodRow) -> Iterator[DimensionShare]:
    """The dimensions that are means of accuracies alone, since guessing has a level only there."""
    for dimension in dimensions_of([line.view]):
        members = [scored for scored in line.view.run.benchmarks if scored.spec.dimension == dimension]
        number, chance = line.lookup(CAPABILITY, ALL, dimension), mean_chance(members)
        is_accuracy = all(set(headlines_of(scored)) == {"accuracy"} for scored in members)
        if number and number.unit == SHARE and number.estimate.value is not None and chance is not None and is_accuracy:
            yield DimensionShare(dimension_title(dimension), number.estimate, chance)


def _merit(model: ModelNumbers) -> float:
    value = model.headline.value or 0.0
    return -value if model.better == "lower" else value


def leading_differences(
    views: Sequence[RunView], facts: Sequence[ModelNumbers]
) -> dict[Method, list[PairedDifference]]:
    """Of the model with the highest headline from each other one. Raises DataError for different builds."""
    by_method: dict[Method, list[PairedDifference]] = {}
    for method in METHODS:
        models = {model.name: model for model in facts if model.method == method}
        compared = [view for view in views if view.label in models]
        by_method[method] = []
        if len(compared) > 1:
            labels = [view.label for view in compared]
            best = max(range(len(labels)), key=lambda place: _merit(models[labels[place]]))
            metric = "accuracy" if models[labels[best]].metric == "accuracy" else ""
            runs = [view.run for view in compared]
            by_method[method] = differences_from(
                runs, labels, best, compared[best].substitutes.get(metric, metric), method
            )
    return by_method


def order_differences(views: Sequence[RunView], first: str, second: str) -> tuple[PairedDifference, ...]:
    """Of two models over all benchmarks in common: circular accuracy, and how far it falls short of the accuracy, which
    is what the order of the options does. Nothing where they were not asked in all orders. Raises DataError."""
    pair = sorted((view for view in views if view.label in (first, second)), key=lambda view: view.label != first)
    runs, labels = [view.run for view in pair], [view.label for view in pair]
    found = (
        difference
        for metric in ("circular_accuracy", "circular_drop")
        for difference in differences_from(runs, labels, 0, metric, "generation")
        if difference.scope == "overall"
    )
    return tuple(found)
