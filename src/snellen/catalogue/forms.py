"""File formats that suites add (tables, submissions, predictions), and which one fits a file or a run.

Finding entries by name, glob, suite, dimension, task, or a named part of a suite.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from snellen import registry
from snellen.catalogue.cards import benchmarks_seen
from snellen.catalogue.entries import BenchmarkSpec
from snellen.catalogue.loading import entries, suite_facts
from snellen.catalogue.suites import PredictionForm, SubmissionWriter, TableForm
from snellen.errors import DataError, UnknownNameError


def suites() -> dict[str, tuple[BenchmarkSpec, ...]]:
    """Return the benchmarks of each suite, by its name."""
    catalogue = entries()
    return {
        suite: tuple(catalogue[name] for name in names) for suite, names in suite_members().items()
    }


def suite_members() -> Mapping[str, Sequence[str]]:
    """The names of each suite's benchmarks; their files are not read for it."""
    return entries().by_suite


def select(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """Entries for a name, a glob (`eyechart/*`), a suite, a suite's part (`eyechart:spatial`), a name without its
    suite (of several benchmarks that of a suite that claims short names), or the same words in another order.

    Raises UnknownNameError with similar names when there are none, and DataError for a short name that several have,
    or for an entry that is left out as it cannot be read.
    """
    catalogue, groups = entries(), suite_members()
    if pattern in catalogue.faults:
        raise DataError(catalogue.faults[pattern])
    if pattern in catalogue:
        return (catalogue[pattern],)
    if pattern in groups:
        return tuple(catalogue[name] for name in groups[pattern])
    suite, _, part = pattern.partition(":")
    if suite in groups and part:
        return _suite_part(suite, part)
    chosen = tuple(
        catalogue[name] for name in catalogue if fnmatch.fnmatchcase(name, pattern)
    ) or _by_short(pattern)
    if chosen:
        return chosen
    if len(same_words := [name for name in catalogue if _words(name) == _words(pattern)]) == 1:
        return (catalogue[same_words[0]],)
    raise unknown_benchmark(pattern, groups)


def _words(name: str) -> list[str]:
    """The words of a name, as other harnesses write it too: MMBench_DEV_EN and mmbench_en_dev are mmbench/dev-en."""
    return sorted(re.split(r"[^a-z0-9]+", name.casefold()))


def unknown_benchmark(pattern: str, others: Iterable[str] = ()) -> UnknownNameError:
    """The error for a name that no benchmark has, nor any of `others`.

    It suggests those whose short names are the first words of it, mmmu for MMMU_DEV_VAL, to which other harnesses add a
    split, and mm-vet for MMVet; or else what is spelt alike.
    """
    suite = re.split("[/:]", pattern)[0]
    if of_lab := registry.of_lab("suites", suite):
        return of_lab
    words, shorts = re.split(r"[^a-z0-9]+", pattern.casefold()), dict[str, list[str]]()
    for name in entries():
        shorts.setdefault(re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2]), []).append(name)
    starts = ("".join(words[:count]) for count in range(len(words), 0, -1))
    if near := next((shorts[start] for start in starts if start in shorts), None):
        return UnknownNameError(
            f"unknown benchmark {pattern!r}; did you mean {' or '.join(near[:3])}?"
        )
    return registry.unknown("benchmark", pattern, [*entries(), *others])


def _by_short(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """The benchmark with a short name, in any case of letters; none where nobody has it."""
    catalogue, short = entries(), pattern.casefold().replace("_", "-")
    names = [name for name in catalogue if name.rpartition("/")[2] == short]
    if len(names) > 1:
        claimed = [name for name in names if suite_facts()[catalogue.suite_of(name)].short_names]
        if len(claimed) != 1:
            raise DataError(f"{pattern} is {' and '.join(names)}; name one of them")
        names = claimed
    return tuple(catalogue[name] for name in names)


def _suite_part(suite: str, part: str) -> tuple[BenchmarkSpec, ...]:
    """The benchmarks of a suite's named part, of a dimension or of a task."""
    members, folded_part = [entries()[name] for name in suite_members()[suite]], part.casefold()
    named_parts = suite_facts()[suite].parts if suite in suite_facts() else {}
    if named_part := named_parts.get(folded_part):
        excluded = {
            seen_benchmark.benchmark
            for seen_benchmark in benchmarks_seen(members, named_part.held_out_for)
        }
        return tuple(spec for spec in members if spec.name not in excluded)
    chosen = tuple(
        spec for spec in members if folded_part in (spec.dimension.casefold(), spec.task.casefold())
    )
    if chosen:
        return chosen
    parts = dict.fromkeys(
        name.casefold() for spec in members for name in (spec.dimension, spec.task) if name
    )
    parts |= dict.fromkeys(named_parts)
    raise registry.unknown(f"part of the suite {suite}", part, parts)


def table_forms() -> list[TableForm]:
    """All table formats; those of Snellen's own suites come first."""
    return list(registry.loadable("table_forms").values())


def recognised_form(path: Path) -> TableForm | None:
    """The format of a file; None for Snellen's own format. Raises DataError when two formats claim it."""
    forms = [form for form in table_forms() if form.recognises(path)]
    if len(forms) > 1:
        raise DataError(
            f"{path} is both of {forms[0].title} and of {forms[1].title}; write an entry that names a reader"
        )
    return forms[0] if forms else None


def titles_of_forms() -> str:
    """All table formats with the pages that describe them, for error messages."""
    return " or ".join(
        f"{form.title} ({form.page})" if form.page else form.title for form in table_forms()
    )


def submission_writer(name: str, benchmarks: Sequence[str]) -> SubmissionWriter:
    """The named format; without a name that of the benchmarks' suite, or the only one there is.

    Raises UnknownNameError, and DataError where the choice is the user's.
    """
    forms = registry.targets("submission_forms")
    if not name:
        own_forms = [
            form
            for suite in _suites_of(benchmarks)
            for form in suite_facts()[suite].hooks.get("submission_forms", ())
        ]
        choice = own_forms if own_forms else list(forms)
        if len(choice) != 1:
            raise DataError(
                f"there are {len(choice)} forms of files for servers; name one with --format: {', '.join(choice)}"
            )
        [name] = choice
    writer: SubmissionWriter = registry.find("submission_forms", name)
    return writer


def prediction_form(name: str, path: Path, benchmark: str) -> tuple[str, PredictionForm] | None:
    """The named format, or the one that fits the file, with its name. Of several that fit, that of the benchmark's
    suite goes first; None if none does: the file is then a table like any other.

    Raises UnknownNameError; DataError when the file is not of the named format, and when the choice is the user's.
    """
    if name:
        chosen_form: PredictionForm = registry.find("prediction_forms", name)
        if fault := chosen_form.fault(path, benchmark):
            raise DataError(f"{path} is not {chosen_form.title}: {fault}")
        return name, chosen_form
    forms: dict[str, PredictionForm] = registry.loadable("prediction_forms")
    fitting = [name for name, form in forms.items() if not form.fault(path, benchmark)]
    own_forms = {
        form
        for suite in _suites_of([benchmark])
        for form in suite_facts()[suite].hooks.get("prediction_forms", ())
    }
    first = [name for name in fitting if name in own_forms] or fitting
    if len(first) > 1:
        raise DataError(f"{path} is of several forms; name one with --as: {', '.join(first)}")
    return (first[0], forms[first[0]]) if first else None


def _suites_of(benchmarks: Sequence[str]) -> list[str]:
    return [
        suite for suite, names in suite_members().items() if not set(names).isdisjoint(benchmarks)
    ]
