"""Recognise a benchmark of the catalogue in a file's name: `model_POPE.xlsx`, `20260101_samples_mmmu_val.jsonl`.

Names may be spelled as other evaluation harnesses do, with the split that these add (`MMMU_DEV_VAL`
is `modern/mmmu`). What the catalogue says about the benchmark is then applied to the file: metrics,
main result, groups and tags. The questions come from the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec, entries
from snellen.catalogue.loading import suite_facts
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile

_WORD = re.compile(r"[a-z0-9]+")
_SPLITS = frozenset(
    "test val dev validation train testmini mini minival testdev balanced img image images all en cn full lite mcq cot "
    "direct sample samples".split()
)
"""Words after a name that say which part of it was asked, or how."""
_MADE_BY = frozenset(
    "openai result results exact matching match score scores scored judge judged gpt 4 4o 35 turbo 0125 1106 eval "
    "prediction predictions pred preds answer answers output outputs response responses detail details record "
    "records final new".split()
)
"""Words after a name that say what a harness put into the file."""
_NUMBERED = re.compile(r"(?:seed|run|n)?\d+")
"""Words after a name that number a run: `seed42`, `run2`, `n500`."""
_ALSO_CALLED = {"documentvqa": "docvqa", "infographicsvqa": "infographicvqa"}
"""Names of data sets that others write in another way than the catalogue."""
_TRANSFORM = re.compile(r"\{([A-Za-z_.]+)(?::\w+)?\}")


class KnownBenchmark(Struct, frozen=True):
    """A benchmark of the catalogue that was recognised in the name of a file."""

    spec: BenchmarkSpec
    model: str
    """The part of the file's name before that of the benchmark, which is usually the model; may be empty."""


def known_benchmark(title: str) -> KnownBenchmark | None:
    """Return the benchmark that a file's title ends with; None if it ends with none.

    Words that harnesses add, such as splits and numbers of runs, may follow it. Of several names,
    the longest counts.

    Examples:
        >>> known_benchmark("vila_13b_MMMU_DEV_VAL").spec.name
        'modern/mmmu'
    """
    words = [(match[0], match.start()) for match in _WORD.finditer(title.casefold())]
    end = len(words)
    while end and (
        words[end - 1][0] in _SPLITS | _MADE_BY or _NUMBERED.fullmatch(words[end - 1][0])
    ):
        end -= 1
    for stop in range(len(words), max(end, 0) - 1, -1):
        for start in range(stop):
            key = _key([word for word, _ in words[start:stop]])
            name = _by_words().get(_ALSO_CALLED.get(key, key))
            if name is not None:
                model = title[: words[start][1]].strip("_-. ")
                return KnownBenchmark(entries()[name], model)
    return None


_ORDINARY_WORDS = frozenset("host tomato blink remi".split())
"""Names that a title may have without being of that benchmark."""


def named_within(title: str) -> str:
    """Return the name of the benchmark that a title mentions anywhere; empty if it mentions none.

    Of several, the one with the longest name is returned.

    Examples:
        >>> named_within("textvqa_llava_7b_merged")
        'modern/textvqa'
    """
    words = _WORD.findall(title.casefold())
    found: dict[str, str] = {}
    for start in range(len(words)):
        for stop in range(start + 1, len(words) + 1):
            key = _key(words[start:stop])
            name = _by_words().get(_ALSO_CALLED.get(key, key))
            is_of_part = _SPLITS.issuperset(words[start:stop])
            if name is not None and not is_of_part and key not in _ORDINARY_WORDS:
                found[key] = name
    return found[max(found, key=len)] if found else ""


def _key(words: Sequence[str]) -> str:
    return "".join(words)


@cache
def _by_words() -> Mapping[str, str]:
    """Return the benchmarks that can be downloaded, by their names in small letters without spaces and signs.

    A name is listed with and without its suite. If two benchmarks have the same short name, the one
    of a suite that claims short names gets it, and otherwise the first one.
    """
    catalogue = entries()
    claimed: dict[str, str] = {}
    by_words: dict[str, str] = {}
    for name in catalogue:
        spec = catalogue[name]
        if not spec.source.places:
            continue  # drawn by Snellen, and called by ordinary words
        facts = suite_facts().get(catalogue.suite_of(name))
        suite, _, short = name.rpartition("/")
        for spelling in (short, f"{suite} {short}"):
            key = _key(_WORD.findall(spelling.casefold()))
            is_claimed = facts is not None and facts.short_names
            if key not in by_words or (is_claimed and key not in claimed):
                by_words[key] = name
            if is_claimed:
                claimed[key] = name
    return by_words


def as_known(file: PredictionFile, known: KnownBenchmark) -> PredictionFile | None:
    """Return a file with the metrics, tags and titles that the catalogue has for its benchmark.

    Args:
        file: The file.
        known: The benchmark.

    Returns:
        The changed file; None if the catalogue's questions have options and those of the file do
        not, or if only those of the file have them.
    """
    spec = known.spec
    with_options = sum(bool(row.options) and row.lists_options for row in file.rows)
    has_options = 2 * with_options > len(file.rows)
    if (spec.formulation == "choice") != has_options:
        return None
    params = spec.source.params
    templates: dict[str, str] = {
        name: str(template)
        for table in ("tags", "answer_tags")
        for name, template in params.get(table, {}).items()
    }
    group = str(params.get("group") or "")
    rows = tuple(_with_tags(row, templates, group) for row in file.rows)
    return replace(
        file,
        rows=rows,
        title=spec.short,
        suite=spec.suite,
        task=spec.task,
        metrics=spec.metrics,
        headline=spec.headline,
        mean_over=spec.mean_over,
        counted_together=spec.counted_together,
        mean_of=spec.mean_of,
        groups=dict(spec.groups),
        notes=(*file.notes, f"read as {spec.title}, by the file's name: its metrics"),
    )


def _with_tags(row: PredictedRow, templates: Mapping[str, str], group: str) -> PredictedRow:
    """Return a row with the tags that the catalogue's metrics need, made from the columns of the file.

    Args:
        row: The row.
        templates: For each tag a text with columns in braces, such as `{category}`. A tag is left
            out if a column is missing.
        group: Such a text for the name of the group of related questions; may be empty.
    """
    tags = dict(row.tags)
    for name, template in templates.items():
        filled = _filled(template, row.tags)
        if filled:
            tags[name] = filled
    own_group = row.group or (_filled(group, row.tags) if not row.picture else "")
    return replace(row, tags=tags, group=own_group)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with the values of a row in place of names in braces.

    The text is empty if the template has no names, or a value is missing.
    """
    names = _TRANSFORM.findall(template)
    if not names or any(name.casefold() not in values for name in names):
        return ""
    return _TRANSFORM.sub(lambda match: str(values[match[1].casefold()]), template)
