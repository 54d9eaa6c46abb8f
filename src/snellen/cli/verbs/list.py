"""`snellen list`"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snellen import registry
from snellen.cli.flags import json_flag
from snellen.cli.show import announce, console, print_records, show_table
from snellen.errors import DataError, UnknownNameError
from snellen.installation import LAB, sibling_install_line
from snellen.metrics.declaration import MetricInput
from snellen.models.known_models import known_models

if TYPE_CHECKING:
    from snellen.catalogue import BenchmarkSpec
    from snellen.catalogue.published_number import PublishedNumber

RUNS = "runs"
WHAT = (
    "benchmarks",
    "suites",
    "models",
    "protocols",
    "metrics",
    "exporters",
    "trackers",
    "cards",
    "recipes",
    RUNS,
)
BENCHMARK_WORDS = ("tasks", "datasets")
"""Words of other tools for the list of benchmarks."""
OF_LAB = ("studies",)
"""Lists that exist if the package snellen-lab is installed."""
DATA = "data"
"""The list of data on this machine, which is not part of the catalogue."""
Rows = list[tuple[str, ...]]
Listing = tuple[tuple[str, ...], Rows]
"""The header of a table, and its rows."""


def all_lists() -> tuple[str, ...]:
    """Return the names of all lists that `snellen list` can show, those of other packages last."""
    added = {*registry.own_targets("listings"), *registry.of_other_packages()["listings"]}
    return (*WHAT, DATA, *sorted(added))


class _Listed(click.Choice[str]):
    """Click parameter type whose help shows the names of lists. Any other word is accepted, as a search word."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


@click.command()
@click.argument("what", type=_Listed(all_lists()), default=WHAT[0])
@click.argument("words", nargs=-1)
@click.option(
    "--where",
    default="",
    help="Show only entries that meet a condition, e.g. \"dimension == 'CG'\".",
)
@click.option(
    "--sources", is_flag=True, help="For benchmarks: show where their source files come from."
)
@click.option(
    "--built",
    is_flag=True,
    help="For benchmarks: show only those built on this machine, your own among them.",
)
@json_flag
def list_command(
    what: str, words: tuple[str, ...], where: str, sources: bool, built: bool, as_json: bool
) -> None:
    """List benchmarks, suites, models, protocols, metrics, exporters, trackers, model cards, recipes, runs or
    downloaded data.

    \b
      snellen list
      snellen list --built
      snellen list chart
      snellen list metrics
      snellen list benchmarks --where "suite == 'mmbench'"

    `data` lists the source files on this machine. Other packages can add lists, such as studies. WORDS select the
    benchmarks that have all of them in their name, title, task, topics, origins or suite. A word can also be a glob
    that matches names. Your own benchmarks are the last ones.
    """
    if what in OF_LAB and what not in all_lists():
        raise UnknownNameError(
            f"`snellen list {what}` is part of another package: {sibling_install_line(LAB)}"
        )
    if what in BENCHMARK_WORDS:
        what = WHAT[0]
    if what not in all_lists():
        what, words = WHAT[0], (what, *words)
    if words and what != WHAT[0]:
        raise DataError(
            f"search words apply to benchmarks, not to {what}; remove {' '.join(words)}"
        )
    if where and what != WHAT[0]:
        raise DataError(f"--where applies to benchmarks, not to {what}; remove it")
    if built and what != WHAT[0]:
        raise DataError(f"--built applies to benchmarks, not to {what}; remove it")
    if what == DATA:
        _show_data(as_json)
        return
    if sources:
        _show_sources(what, words, where, as_json)
        return
    if what != WHAT[0]:
        make_list = _LISTS.get(what) or registry.find_registered("listings", what)
        header, rows = make_list()
        show_table(what, header, rows, as_json)
    elif built:
        header, rows = benchmark_table(words, where, built=True)
        if not rows:
            reason = "no built benchmark matches" if words or where else "nothing is built yet"
            raise DataError(f"{reason}; `snellen build FILE` makes a benchmark of your questions")
        show_table("built", header, rows, as_json)
    elif words or where or as_json or not console.is_terminal:
        header, rows = _matching_benchmarks(words, where)
        show_table(what, header, rows, as_json)
    else:
        _show_by_suite()


def _matching_benchmarks(words: Sequence[str], where: str) -> Listing:
    """Return a table of the benchmarks that match all search words and a condition.

    If a single word matches nothing, it is tried as an argument of `snellen run`: a name, glob or suite. Then it is tried
    as a folder of built benchmarks.

    Args:
        words: The search words.
        where: The condition; may be empty.

    Returns:
        The headings and the rows.

    Raises:
        DataError: No benchmark matches.
    """
    header, rows = benchmark_table(words, where)
    if rows and len(words) == 1:
        # What `snellen run` takes the word to mean comes first.
        named = {spec.name for spec in _selected(words[0])}
        rows.sort(key=lambda row: row[0] not in named)
    if not rows and len(words) == 1:
        unique_rows: dict[tuple[str, ...], None] = {}  # a name may begin another one
        for spec in _selected(words[0]):
            _, rows_of_benchmark = benchmark_table((spec.name,), where)
            unique_rows.update(dict.fromkeys(rows_of_benchmark))
        rows = list(unique_rows)
    if not rows and len(words) == 1 and Path(words[0]).is_dir():
        header, rows = _benchmarks_in(Path(words[0]))
    if rows:
        return header, rows

    _check_is_no_path(words)
    hint = "`snellen list` shows all, `snellen list --built` those built on this machine"
    if words:
        similar_lists = difflib.get_close_matches(words[0], all_lists(), n=1)
        if similar_lists:
            hint = f"did you mean `snellen list {similar_lists[0]}`?"
    raise DataError(f"no benchmark matches {' and '.join(words) or where}; {hint}")


def _selected(word: str) -> Sequence[BenchmarkSpec]:
    """Return the benchmarks that `snellen run` takes a word to mean; none if it would refuse the word."""
    from snellen.catalogue.selection import select

    with suppress(DataError, UnknownNameError):
        return select(word)
    return ()


def _check_is_no_path(words: Sequence[str]) -> None:
    """Raise DataError for a word that is a file packed by Snellen, which says how to unpack it."""
    from snellen.formats.packed_files import how_to_unpack

    for word in words:
        how = how_to_unpack(Path(word))
        if how:
            raise DataError(f"{word} was packed by Snellen; {how}")


def _show_data(as_json: bool) -> None:
    """List the data kept on this machine, with sizes and the benchmarks that need them."""
    from snellen.common.foreign import format_bytes
    from snellen.fetching.data_folder import data_folder
    from snellen.fetching.inventory import kept_data

    kept_entries = kept_data()
    if as_json:
        print_records(kept_entries)
        return
    rows: Rows = []
    total_bytes = 0
    unused_bytes = 0
    for entry in kept_entries:
        benchmarks = ", ".join(entry.benchmarks)
        rows.append((entry.name, entry.kind, format_bytes(entry.size), entry.state, benchmarks))
        total_bytes += entry.size
        if entry.state == "unused":
            unused_bytes += entry.size
    show_table(DATA, ("name", "kind", "size", "state", "benchmarks"), rows, as_json=False)
    console.print(
        f"{format_bytes(total_bytes)} in {data_folder()} and the hub's cache; {format_bytes(unused_bytes)} are unused",
        soft_wrap=True,
    )


def _show_by_suite() -> None:
    """Print the names of all benchmarks, with a paragraph for each suite."""
    from rich.columns import Columns
    from rich.text import Text

    from snellen.catalogue import suite_facts

    groups: dict[str, list[str]] = {}
    for spec in _specs((), ""):
        groups.setdefault(spec.suite, []).append(spec.name)
    for suite, names in groups.items():
        title = suite_facts()[suite].title if suite in suite_facts() else "your own"
        console.print(Text.assemble((suite or "-", "bold"), f"  {title}, {len(names)}"))
        console.print(
            Columns([Text(name.removeprefix(f"{suite}/")) for name in names], padding=(0, 2)), ""
        )
    console.print(
        "Use SUITE/NAME, or just NAME if it is unique. `snellen list WORD` shows more about matching benchmarks, "
        "`snellen list --built` those built on this machine, your own among them."
    )


def _show_sources(section: str, words: Sequence[str], where: str, as_json: bool) -> None:
    """Print where the source files of the matching benchmarks come from, with size, access and licence."""
    from snellen.fetching.inventory import origins_of

    if section != WHAT[0]:
        raise DataError(f"--sources applies to benchmarks, not to {section}; remove it")
    origins = list(chain.from_iterable(origins_of(spec) for spec in _specs(words, where)))
    if as_json:
        print_records(origins)
        return
    rows: Rows = []
    for place in origins:
        access = "gated" if place.gated else ""
        rows.append((place.name, place.shown_size, access, place.licence, place.label))
    show_table("sources", ("name", "size", "access", "licence", "from"), rows, as_json=False)


def _specs(words: Sequence[str], where: str) -> Iterator[BenchmarkSpec]:
    """Yield the benchmarks that match all search words and a condition: those of the catalogue, then the user's own.

    Args:
        words: The search words.
        where: A condition such as `suite == 'mmbench'`; empty for none.

    Raises:
        DataError: The condition is not valid, or uses a property that benchmarks do not have.
    """
    from snellen.building.benchmark import Benchmark, own_benchmarks
    from snellen.catalogue import entries
    from snellen.common.conditions import Condition
    from snellen.common.paths import benchmark_folder
    from snellen.registry import unknown_name

    condition = Condition(where) if where else None
    own_specs = []
    for name in own_benchmarks():
        try:
            own_specs.append(Benchmark(benchmark_folder(name)).spec)
        except DataError as error:  # one that is damaged does not hide the others
            announce(str(error))
    specs = (*entries().values(), *own_specs)
    if condition:
        known_facts = specs[0].facts()
        unknown_facts = condition.names - set(known_facts)
        if unknown_facts:
            raise DataError(f"--where: {unknown_name('fact', min(unknown_facts), known_facts)}")
    for spec in specs:
        if condition and not condition.holds(spec.facts()):
            continue
        if all(_matches(spec, word.casefold()) for word in words):
            yield spec


def _matches(spec: BenchmarkSpec, word: str) -> bool:
    """Return whether a benchmark matches a search word, which must be in lower case.

    It does if the word is its suite, is a glob that matches its name, or occurs in its short name, title, task,
    topics or origins.
    """
    if word == spec.suite or fnmatchcase(spec.name, word):
        return True
    texts = (spec.short, spec.title, spec.task, *spec.topics, *spec.origins)
    return any(word in text.casefold() for text in texts)


def _wording(published: PublishedNumber) -> str:
    """Describe the prompts of a benchmark for the list: whose wording they have, such as `the makers' wording`.

    Two facts are added where they hold: that no prompt was ever published, and that the prompt of the judge is
    Snellen's own.
    """
    from snellen.catalogue.published_number import OWN_JUDGE_WORDING

    wording = published.wording
    if published.no_prompt and not published.prompt:
        wording += ": no prompt was published"
    if published.judge_wording == OWN_JUDGE_WORDING:
        wording += f"; {OWN_JUDGE_WORDING}"
    return wording


def _decoding(published: PublishedNumber) -> str:
    """Return the published decoding of a benchmark, or that none was published."""
    from snellen.catalogue.published_number import OWN_DECODING

    if published.no_decoding:
        return f"{OWN_DECODING}: no decoding was published"
    return published.decoding


BENCHMARK_HEADER = (
    "name",
    "title",
    "dimension",
    "form",
    "samples",
    "asked by",
    "from",
    "number",
    "wording",
    "decoding",
    "licence",
)


def benchmark_table(words: Sequence[str] = (), where: str = "", *, built: bool = False) -> Listing:
    """Return a table with what is known about each benchmark, such as title, dimension, number of samples and licence.

    Args:
        words: Search words. Only benchmarks that match all of them are included.
        where: A condition that benchmarks must meet; empty for none.
        built: Whether to include only benchmarks that are built on this machine.

    Returns:
        The headings and the rows.
    """
    from snellen.building.source_state import is_built
    from snellen.catalogue import dimension_titles

    titles = dimension_titles()
    rows: Rows = []
    for spec in _specs(words, where):
        if built and not is_built(spec):
            continue
        dimension = titles.get(spec.dimension, spec.dimension)
        rows.append(_benchmark_row(spec, dimension, "built" if is_built(spec) else _origin(spec)))
    return BENCHMARK_HEADER, rows


def _benchmark_row(spec: BenchmarkSpec, dimension: str, origin: str) -> tuple[str, ...]:
    """Return the row of a benchmark in the table of benchmarks."""
    return (
        spec.name,
        spec.title,
        dimension,
        spec.formulation,
        "" if spec.expected.samples is None else f"{spec.expected.samples:,}",
        ", ".join((*(spec.generation or ("vanilla",)), *spec.likelihood)),
        origin,
        spec.published.mark if spec.published else "",
        _wording(spec.published) if spec.published else "",
        _decoding(spec.published) if spec.published else "",
        spec.licence,
    )


def _benchmarks_in(folder: Path) -> Listing:
    """Return a table of the built benchmarks in a folder, or in the folders inside it, such as unpacked ones.

    The column `from` has the folder, which `snellen run` takes as the name of the benchmark.
    """
    from snellen.building.benchmark import MANIFEST, Benchmark
    from snellen.catalogue import dimension_titles

    titles = dimension_titles()
    rows: Rows = []
    for place in (folder, *sorted(folder.iterdir())):
        if not (place / MANIFEST).is_file():
            continue
        spec = Benchmark(place).spec
        dimension = titles.get(spec.dimension, spec.dimension)
        rows.append(_benchmark_row(spec, dimension, str(place)))
    return BENCHMARK_HEADER, rows


def _origin(spec: BenchmarkSpec) -> str:
    """Return the first source of a benchmark's files in a word or two, such as the name of a repository.

    It is read from the catalogue entry alone, because reading the recorded facts about the files takes time.
    """
    from snellen.catalogue import suite_of
    from snellen.catalogue.places import HubSource, ManualSource, UrlSource

    if spec.source.embedded:
        return "built in"
    suite = suite_of(spec) if spec.suite else None
    is_published = suite and "importers" in suite.hooks
    for place in spec.source.places:
        if isinstance(place, HubSource):
            return place.repo
        if isinstance(place, UrlSource):
            return place.files[0].url.split("/")[2]
        if isinstance(place, ManualSource) and not is_published:
            return "by hand"
    if is_published:
        return "published data"
    if spec.source.files_of:
        return f"as {spec.source.files_of}"
    return "own files"


def _suites() -> Listing:
    """List the suites with their numbers of benchmarks and their dimensions."""
    from snellen.catalogue import suites

    rows: Rows = []
    for name, specs in suites().items():
        dimensions = dict.fromkeys(spec.dimension for spec in specs)
        rows.append((name, str(len(specs)), ", ".join(dimensions)))
    return ("suite", "benchmarks", "dimensions"), rows


def _models() -> Listing:
    return ("model", "what it is"), [*known_models()]


def _protocols() -> Listing:
    """List the protocols with their options."""
    import msgspec

    rows: Rows = []
    for name, form in sorted(registry.loadable("protocols").items()):
        options = ", ".join(
            f"{field.name}={field.default}" for field in msgspec.structs.fields(form)
        )
        rows.append((name, (form.__doc__ or "").splitlines()[0], options))
    return ("protocol", "what it does", "options"), rows


def _metrics() -> Listing:
    """List the metrics, sorted by what they are computed over, such as choices or replies."""
    from snellen.metrics.declaration import find_metric

    rows_by_input: dict[str, Rows] = {metric_input: [] for metric_input in _METRIC_INPUTS}
    for name in sorted(registry.loadable("metrics")):
        metric = find_metric(name)
        first_row = metric.rows[0]
        unit = first_row.unit or "-"
        row = (name, metric.computed_over, unit, first_row.better, metric.description)
        rows_by_input[metric.computed_over].append(row)
    header = ("metric", "over", "unit", "better", "what it is")
    return header, list(chain.from_iterable(rows_by_input.values()))


def _cards() -> Listing:
    """List the model cards, with sizes and training data."""
    from snellen.catalogue.cards import model_cards

    rows: Rows = []
    for name, card in model_cards().items():
        parameters = "" if card.parameters is None else f"{card.parameters:,}"
        trainable = "" if card.trainable_parameters is None else f"{card.trainable_parameters:,}"
        visual_tokens = "" if card.visual_tokens is None else str(card.visual_tokens)
        trained_on = "not known" if card.trained_on is None else ", ".join(card.trained_on)
        model_parts = (card.vision, card.backbone, card.connection)
        rows.append((name, *model_parts, parameters, trainable, visual_tokens, trained_on))
    header = (
        "card",
        "vision",
        "language model",
        "connection",
        "parameters",
        "trained",
        "visual tokens",
        "trained on",
    )
    return header, rows


def _recipes() -> Listing:
    """List the recipes of vendors, with their sizes, settings and the source of the numbers that they print."""
    from snellen.catalogue.recipes import packaged_recipes

    rows: Rows = []
    for name, recipe in packaged_recipes().items():
        benchmarks = {number.benchmark for number in recipe.numbers}
        stated = ", ".join(recipe.setting_sources)
        unstated = ", ".join(recipe.unstated)
        sizes = ", ".join(recipe.sizes)
        rows.append(
            (name, recipe.title, sizes, str(len(benchmarks)), stated, unstated, recipe.source)
        )
    header = ("recipe", "models", "sizes", "benchmarks", "sets", "not stated", "printed in")
    return header, rows


_METRIC_INPUTS: tuple[MetricInput, ...] = (
    "choices",
    "ranks",
    "groups",
    "reply",
    "corpus",
    "counts",
    "judge",
    "ratings",
    "derived",
)


def _list_titles(group: registry.Group, title: str) -> Listing:
    """List the names of a group of the registry with the title of each.

    Args:
        group: The group, such as `exporters`.
        title: The heading of the column of titles.
    """
    rows: Rows = []
    for name, target in sorted(registry.loadable(group).items()):
        rows.append((name, target.title))
    return (registry.singular(group), title), rows


def _runs() -> Listing:
    """List the runs in the folder of runs."""
    from snellen.listing import list_runs
    from snellen.runs.run_folder import read_manifest

    rows: Rows = []
    for folder in list_runs():
        manifest = read_manifest(Path(folder))
        benchmarks = ", ".join(use.name for use in manifest.benchmarks)
        rows.append((folder, manifest.model, benchmarks, manifest.started))
    return ("run", "model", "benchmarks", "started"), rows


_LISTS: dict[str, Callable[[], Listing]] = {
    "suites": _suites,
    "models": _models,
    "protocols": _protocols,
    "metrics": _metrics,
    "exporters": lambda: _list_titles("exporters", "what it writes"),
    "trackers": lambda: _list_titles("trackers", "what stands after the colon"),
    "cards": _cards,
    "recipes": _recipes,
    RUNS: _runs,
}
