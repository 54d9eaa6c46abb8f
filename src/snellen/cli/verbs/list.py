"""`snellen list`"""

from __future__ import annotations

from collections.abc import Callable

import click

from snellen import registry
from snellen.cli.flags import json_flag
from snellen.metrics.declaration import MetricInput

WHAT = ("benchmarks", "suites", "studies", "models", "protocols", "metrics", "exporters", "trackers", "cards")
Rows = list[tuple[str, ...]]


@click.command()
@click.argument("what", type=click.Choice(WHAT), default="benchmarks")
@click.option("--where", default="", help="A condition on facts, e.g. \"dimension == 'CG'\".")
@json_flag
def command(what: str, where: str, as_json: bool) -> None:
    """Show what there is: benchmarks (default), suites, studies, models, protocols, metrics, exporters, trackers, model
    cards."""
    from snellen.cli.show import show_table

    header, rows = _LISTS[what](where)
    show_table(what, header, rows, as_json)


def _benchmarks(where: str) -> tuple[tuple[str, ...], Rows]:
    from snellen.benchmark import MANIFEST, Benchmark, own_benchmarks
    from snellen.catalogue import dimension_titles, entries
    from snellen.cli.show import announce
    from snellen.conditions import Condition
    from snellen.errors import DataError
    from snellen.paths import benchmark_folder

    condition = Condition(where) if where else None
    own_specs = []
    for name in own_benchmarks():
        try:
            own_specs.append(Benchmark(benchmark_folder(name)).spec)
        except DataError as error:  # one that is damaged does not hide the others
            announce(str(error))
    titles = dimension_titles()
    rows: Rows = []
    for spec in (*entries().values(), *own_specs):
        if condition is None or condition.holds(spec.facts()):
            built = (benchmark_folder(spec.name) / MANIFEST).exists()
            count = spec.expected.samples
            rows.append(
                (
                    spec.name,
                    titles.get(spec.dimension, spec.dimension),
                    spec.task,
                    spec.formulation,
                    "" if count is None else f"{count:,}",
                    "built" if built else "when first run" if spec.source.embedded else "build it first",
                    spec.licence,
                )
            )
    return ("name", "dimension", "task", "form", "samples", "state", "licence"), rows


def _suites(where: str) -> tuple[tuple[str, ...], Rows]:
    from snellen.catalogue import suites

    rows: Rows = [
        (name, str(len(specs)), ", ".join(dict.fromkeys(spec.dimension for spec in specs)))
        for name, specs in suites().items()
    ]
    return ("suite", "benchmarks", "dimensions"), rows


def _studies(where: str) -> tuple[tuple[str, ...], Rows]:
    from snellen.studies.declaration import studies

    rows: Rows = [
        (
            name,
            study.title,
            ", ".join(factor.name for factor in study.vary) or "-",
            ", ".join(study.fixed["benchmarks"]),
        )
        for name, study in studies().items()
    ]
    return ("study", "title", "varies", "benchmarks"), rows


def _models(where: str) -> tuple[tuple[str, ...], Rows]:
    descriptions = {
        "hf": ("hf:org/name[@revision], hf:./folder", "an image-text-to-text model of transformers, in this process"),
        "openai": ("openai:name@http://host:port/v1", "a model behind an OpenAI-compatible server"),
        "replay": ("replay:runs/NAME", "the responses of an earlier run"),
    }
    embedded = (
        ("snellen:tiny", "a trained LLaVA of a few megabytes that ships with Snellen"),
        ("snellen:tiny-xs", "a smaller one that sees, but was never taught to answer by label"),
        ("snellen:oracle", "instrument: knows the answers; must score 100"),
        ("snellen:uniform", "instrument: guesses; must land on chance"),
        ("snellen:always-a", "instrument: names the first label; CircularEval must bring it to zero"),
        ("snellen:biased?p=0.7", "instrument: names the first label with probability p, else guesses"),
        ("snellen:scripted?file=replies.json", "instrument: replies from a file, sample id to text"),
    )
    rows: Rows = [
        descriptions.get(name, (f"{name}:...", "from another package"))
        for name in registry.names("models")
        if name != "snellen"
    ]
    return ("model", "what it is"), [*rows, *embedded]


def _protocols(where: str) -> tuple[tuple[str, ...], Rows]:
    import msgspec

    rows: Rows = []
    for name in registry.names("protocols"):
        form = registry.find("protocols", name)
        options = ", ".join(f"{field.name}={field.default}" for field in msgspec.structs.fields(form))
        rows.append((name, (form.__doc__ or "").splitlines()[0], options))
    return ("protocol", "what it does", "options"), rows


def _metrics(where: str) -> tuple[tuple[str, ...], Rows]:
    from snellen.metrics.declaration import find_metric

    metrics = [(name, find_metric(name)) for name in registry.names("metrics")]
    rows: Rows = [
        (name, metric.computed_over, metric.rows[0].unit or "-", metric.rows[0].better, metric.what)
        for name, metric in metrics
    ]
    return ("metric", "over", "unit", "better", "what it is"), sorted(rows, key=lambda row: _OVER.index(row[1]))


def _cards(where: str) -> tuple[tuple[str, ...], Rows]:
    from snellen.catalogue.cards import model_cards

    rows: Rows = [
        (
            name,
            card.vision,
            card.backbone,
            card.connection,
            *("" if count is None else f"{count:,}" for count in (card.parameters, card.trainable_parameters)),
            "" if card.visual_tokens is None else str(card.visual_tokens),
            "not known" if card.trained_on is None else ", ".join(card.trained_on),
        )
        for name, card in model_cards().items()
    ]
    header = ("card", "vision", "language model", "connection", "parameters", "trained", "visual tokens", "trained on")
    return header, rows


_OVER: tuple[MetricInput, ...] = (
    "choices",
    "ranks",
    "pictures",
    "reply",
    "corpus",
    "counts",
    "judge",
    "ratings",
    "derived",
)


def _exporters(where: str) -> tuple[tuple[str, ...], Rows]:
    rows: Rows = [(name, registry.find("exporters", name).title) for name in registry.names("exporters")]
    return ("exporter", "what it writes"), rows


def _trackers(where: str) -> tuple[tuple[str, ...], Rows]:
    rows: Rows = [(name, registry.find("trackers", name).title) for name in registry.names("trackers")]
    return ("tracker", "what stands after the colon"), rows


_LISTS: dict[str, Callable[[str], tuple[tuple[str, ...], Rows]]] = {
    "benchmarks": _benchmarks,
    "suites": _suites,
    "studies": _studies,
    "models": _models,
    "protocols": _protocols,
    "metrics": _metrics,
    "exporters": _exporters,
    "trackers": _trackers,
    "cards": _cards,
}
