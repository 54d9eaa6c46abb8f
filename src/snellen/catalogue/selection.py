"""Find benchmarks by name, glob, suite, part of a suite, or the name that another harness gives them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from snellen import registry
from snellen.catalogue.cards import benchmarks_seen
from snellen.catalogue.entries import BenchmarkSpec
from snellen.catalogue.loading import entries, suite_facts
from snellen.errors import DataError, UnknownNameError

_PLAIN_NAME = re.compile(r"[\w.+-]+")
"""A name without its suite, which is neither a glob nor a part of a suite."""
_SPLIT_NAMES = {"validation": "val", "mini": "testmini"}
"""How the catalogue calls splits, by the names that other harnesses have for them."""
MAX_MEMBERS_SHOWN = 4
MAX_SUGGESTIONS = 3


def suites() -> dict[str, tuple[BenchmarkSpec, ...]]:
    """Return the benchmarks of each suite, by its name."""
    catalogue = entries()
    benchmarks_of_suite: dict[str, tuple[BenchmarkSpec, ...]] = {}
    for suite, names in suite_members().items():
        benchmarks_of_suite[suite] = tuple(catalogue[name] for name in names)
    return benchmarks_of_suite


def suite_members() -> Mapping[str, Sequence[str]]:
    """Return the names of each suite's benchmarks, without reading their files."""
    return entries().by_suite


def select(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """Return the benchmarks of a name, of a glob (`eyechart/*`), of a suite, or of its part (`eyechart:spatial`).

    A name may also be written without its suite, with its words in another order, as another harness calls it (an alias
    that a suite declares, which may mean several benchmarks), or with its split. If several suites have a benchmark of
    the same short name, the one is meant whose suite claims short names.

    Raises:
        UnknownNameError: No benchmark matches. The message names similar ones.
        DataError: Several benchmarks have the short name, or the entry cannot be read.
    """
    catalogue = entries()
    if pattern in catalogue.faults:
        raise DataError(catalogue.faults[pattern])
    if pattern in catalogue:
        return (catalogue[pattern],)

    is_plain_name = _PLAIN_NAME.fullmatch(pattern) is not None
    alias = aliases().get(_letters(pattern))
    if is_plain_name and alias:
        return tuple(catalogue[name] for name in alias)

    members_by_suite = suite_members()
    if pattern in members_by_suite:
        return tuple(catalogue[name] for name in members_by_suite[pattern])
    suite, _, part = pattern.partition(":")
    if suite in members_by_suite and part:
        return _suite_part(suite, part)

    matches = [name for name in catalogue if fnmatch.fnmatchcase(name, pattern)]
    if not matches:
        matches = _with_short_name(pattern)
    if matches:
        return tuple(catalogue[name] for name in matches)

    pattern_words = sorted(_words(pattern))
    same_words = [name for name in catalogue if sorted(_words(name)) == pattern_words]
    if len(same_words) == 1:
        return (catalogue[same_words[0]],)
    with_split = _with_name_and_split(pattern)
    if is_plain_name and with_split:
        return (catalogue[with_split],)
    raise unknown_benchmark(pattern, members_by_suite)


def aliases() -> Mapping[str, tuple[str, ...]]:
    """Return the benchmarks that other harnesses call by another name, by that name.

    Only the letters and digits of the other name are kept, as `_letters` returns them, so that case and punctuation do
    not matter. For example `hrbench` gives `modern/hr-bench-4k` and `modern/hr-bench-8k`.
    """
    benchmarks_by_letters: dict[str, tuple[str, ...]] = {}
    for suite in suite_facts().values():
        for alias, short_names in suite.aliases.items():
            if isinstance(short_names, str):
                short_names = (short_names,)
            full_names = tuple(f"{suite.name}/{short_name}" for short_name in short_names)
            benchmarks_by_letters[_letters(alias)] = full_names
    return benchmarks_by_letters


def unknown_benchmark(pattern: str, alternatives: Iterable[str] = ()) -> UnknownNameError:
    """Return the error for a name that no benchmark has, with a suggestion.

    It suggests the suite that has this name; otherwise benchmarks whose short name is the beginning of it (mmmu for
    MMMU_DEV_VAL, a name with a split as in other harnesses); otherwise names with a similar spelling.

    Args:
        pattern: The name.
        alternatives: Other names to suggest.
    """
    suite = re.split("[/:]", pattern)[0]
    error_of_lab = registry.of_lab("suites", suite)
    if error_of_lab:
        return error_of_lab
    for name, members in suite_members().items():
        if _letters(name) == _letters(pattern):
            shown = ", ".join(members[:MAX_MEMBERS_SHOWN])
            if len(members) > MAX_MEMBERS_SHOWN:
                shown += " ..."
            return UnknownNameError(
                f"unknown benchmark {pattern!r}; did you mean the suite {name}, or one of it ({shown})?"
            )
    for _, candidates in _by_first_words(pattern):
        suggestions = (_claimed(candidates) or candidates)[:MAX_SUGGESTIONS]
        return UnknownNameError(
            f"unknown benchmark {pattern!r}; did you mean {' or '.join(suggestions)}?"
        )
    return registry.unknown_name("benchmark", pattern, [*entries(), *alternatives])


# --- names of benchmarks ---------------------------------------------------------------------------------------------


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case: mmbench, dev, en for MMBench_DEV_EN, and refcoco, plus for refcoco+."""
    spelled_out = name.casefold().replace("+", "-plus-")
    return re.split(r"[^a-z0-9]+", spelled_out)


def _letters(name: str) -> str:
    """Return the letters and digits of a name in lower case: `mmvet` for MMVet, mm_vet and mm-vet."""
    return "".join(_words(name))


def _short_name(name: str) -> str:
    """Return the name of a benchmark without its suite."""
    return name.rpartition("/")[2]


def _by_first_words(pattern: str) -> Iterator[tuple[str, list[str]]]:
    """Split a pattern into the short name of benchmarks and further words, in all possible ways.

    `mmbench dev en` is split into `mmbench` and `deven` if a benchmark is called `mmbench`.

    Yields:
        For each way, the further words without blanks, and the benchmarks. The longest short name comes first.
    """
    names_by_letters: dict[str, list[str]] = {}
    for name in entries():
        letters = _letters(_short_name(name))
        names_by_letters.setdefault(letters, []).append(name)
    words = _words(pattern)
    for n_first_words in range(len(words), 0, -1):
        short_name = "".join(words[:n_first_words])
        further_words = "".join(words[n_first_words:])
        names = names_by_letters.get(short_name)
        if names:
            yield further_words, names


def _claimed(names: Sequence[str]) -> list[str]:
    """Return which of several benchmarks a short name means: those whose suite sets `short_names = true`.

    A single benchmark is returned in any case.

    Args:
        names: Benchmarks of different suites that have the same short name.
    """
    if len(names) < 2:
        return list(names)
    facts = suite_facts()
    return [name for name in names if facts[entries().suite_of(name)].short_names]


def _with_short_name(pattern: str) -> list[str]:
    """Return the benchmark with a short name, in upper or lower case; an empty list if there is none.

    Raises:
        DataError: Several benchmarks have the name.
    """
    short_name = pattern.casefold().replace("_", "-")
    names = [name for name in entries() if _short_name(name) == short_name]
    if len(names) < 2:
        return names
    claimed = _claimed(names)
    if len(claimed) != 1:
        raise DataError(f"{pattern} is {' and '.join(names)}; name one of them")
    return claimed


def _with_name_and_split(pattern: str) -> str:
    """Return the name of the benchmark that a short name means, with or without its split (MMVet, DocVQA_VAL).

    The result is empty if there is no such benchmark, or if it is unclear which one is meant.
    """
    for split, candidates in _by_first_words(pattern):
        claimed = _claimed(candidates)
        if len(claimed) != 1:
            continue
        [name] = claimed
        if not split or _usual_split(split) == _usual_split(entries()[name].split):
            return name
    return ""


def _usual_split(split: str) -> str:
    """Return a split as the catalogue calls it: `val` for `validation`."""
    return _SPLIT_NAMES.get(split, split)


def _suite_part(suite: str, part: str) -> tuple[BenchmarkSpec, ...]:
    """Return the benchmarks of a part of a suite, such as `eyechart:spatial`.

    A part is a name that the suite declares, which stands for the benchmarks that none of some models was trained on;
    or a dimension (ability) or a task, which stands for its benchmarks. Upper and lower case are the same.

    Raises:
        UnknownNameError: The suite has no such part. The message suggests a similar one.
    """
    members = [entries()[name] for name in suite_members()[suite]]
    folded_part = part.casefold()
    declared_parts = suite_facts()[suite].parts if suite in suite_facts() else {}
    declared_part = declared_parts.get(folded_part)
    if declared_part:
        seen_benchmarks = benchmarks_seen(members, declared_part.held_out_for)
        seen_names = {seen_benchmark.benchmark for seen_benchmark in seen_benchmarks}
        return tuple(spec for spec in members if spec.name not in seen_names)

    matches: list[BenchmarkSpec] = []
    known_parts: list[str] = []
    for spec in members:
        parts_of_benchmark = (spec.dimension.casefold(), spec.task.casefold())
        if folded_part in parts_of_benchmark:
            matches.append(spec)
        known_parts.extend(name for name in parts_of_benchmark if name)
    if not matches:
        known_parts.extend(declared_parts)
        raise registry.unknown_name(f"part of the suite {suite}", part, set(known_parts))
    return tuple(matches)
