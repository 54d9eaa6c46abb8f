"""A study as its TOML file declares it: what is held fixed, what varies, which metrics and which statistics.

Its cells are every combination of its factors' levels, and the baseline.

docs/studies.md shows each field in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import (
    RUN_FIELDS,
    QuestionSpec,
    Sampling,
    check_known,
    check_names,
    declared_file,
    names_of,
    overlaid,
    parse_toml,
    read_text,
    run_spec,
    study_files,
    unknown,
)

SAMPLE_SEED, SAMPLE_RATIO = "sample.seed", "sample.ratio"
"""The fields of a factor that varies which samples are drawn, and how many."""
BUILD_OPTIONS, BUILD_DISTRACTORS = "build.options", "build.distractors"
"""The fields of a factor that varies how benchmarks are built: the number of options, where distractors come from."""
NOT_OF_A_RUN = (SAMPLE_SEED, SAMPLE_RATIO, BUILD_OPTIONS, BUILD_DISTRACTORS)
OF_A_CELL = (*(name for name in QuestionSpec.__struct_fields__ if name != "models"), *NOT_OF_A_RUN)
"""What may differ between the cells of a study: what is asked of a model, the sample and the build."""
NOT_FIXED = ("models", "name", "label", "runs", "report", "judge")
"""Fields of a run that the study or its caller sets."""
FIXED = tuple(name for name in RUN_FIELDS if name not in NOT_FIXED)
Slot = Literal["cut", "blank"]


class StudySample(Struct, frozen=True):
    """The part of each benchmark that is asked: a rule with its amounts, as for `snellen sample`."""

    sampling: Sampling
    by: str = ""
    """The tag that is balanced by; the answer when empty."""
    seed: int = 0


class Factor(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that varies. Its levels are `values`, a list or a table by label, or the lines of `file`."""

    name: str
    field: str = ""
    """What it sets: a field of a run, of the sample (`sample.seed`) or of the build (`build.options`); the factor's
    name when empty."""
    values: list[Any] | dict[str, Any] = []
    file: str = ""
    """A text file beside the study's with a level a line; lines that begin with # are comments."""
    slot: Slot = "cut"
    """What becomes of a line with a place for a class (`a photo of a {}.`): the words before it, or `___` in it."""

    @property
    def sets(self) -> str:
        return self.field or self.name


class StudySpec(Struct, frozen=True, kw_only=True):
    """A declared study."""

    name: str
    title: str
    about: str = ""
    """What it repeats: a table of a paper."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers has to know."""
    fixed: dict[str, Any] = {}
    """Fields of a run that all cells share."""
    sample: StudySample | None = None
    vary: tuple[Factor, ...] = ()
    baseline: dict[str, Any] = {}
    """Fields of a run that make one more cell, shown beside the others and left out of their statistics."""
    metrics: tuple[str, ...] = ()
    """Rows of metrics; each benchmark's headline when empty."""
    statistics: tuple[Annotated[str, names_of("study_statistics")], ...] = (
        "cells",
        "spread",
        "variance",
        "pairs",
    )
    """Names of the registry's group `study_statistics`."""
    folder: Path | None = None
    """Where the files that its factors name are; None for a study without a file."""

    def with_settings(self, settings: Mapping[str, Any]) -> StudySpec:
        """The study with other fields of a run; tables field by field.

        Raises DataError for a field that a factor varies.
        """
        check_known(settings, FIXED, "field", "")
        if varied := {factor.sets for factor in self.vary} & set(settings):
            raise DataError(
                f"{self.name} varies {min(varied)}; give its levels instead of one value (--levels)"
            )
        return replace(self, fixed=overlaid(self.fixed, settings))

    def with_metrics(self, metrics: Sequence[str]) -> StudySpec:
        """The study with other metrics, if any are named."""
        return replace(self, metrics=tuple(metrics)) if metrics else self


def find_study(name: str) -> StudySpec:
    """The study of a file (`mine.toml`), or of that name. Raises UnknownNameError, and DataError for a wrong file."""
    file = declared_file("study", name)
    return parse_study(file.text, file.name, file.where, Path(file.where).parent)


def studies() -> dict[str, StudySpec]:
    """All studies that suites and named folders declare, by name. Raises DataError for a wrong file."""
    return {name: find_study(name) for name in study_files()}


def list_studies() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of `snellen list studies`."""
    rows: list[tuple[str, ...]] = []
    for name, study in studies().items():
        factors = ", ".join(factor.name for factor in study.vary)
        rows.append((name, study.title, factors or "-", ", ".join(study.fixed["benchmarks"])))
    return ("study", "title", "varies", "benchmarks"), rows


def parse_study(text: str, name: str, where: str, folder: Path | None = None) -> StudySpec:
    """A study from the text of its file. Raises DataError or UnknownNameError, beginning with `where`."""
    content = parse_toml(text, where)
    fields = [field for field in StudySpec.__struct_fields__ if field not in ("name", "folder")]
    if strange := set(content) - set(fields):
        raise DataError(f"{where}: {unknown('field', min(strange), fields)}")
    sample = _converted(content.pop("sample", {}), dict[str, Any], f"{where}: sample")
    declared = _converted({**content, "name": name}, StudySpec, where)
    _check_fields(declared.fixed, where, "fixed")
    _check_fields(declared.baseline, where, "baseline", OF_A_CELL)
    check_names(declared, where)
    _check_factors(declared.vary, where)
    if not sample and (
        sampling_factors := {SAMPLE_SEED, SAMPLE_RATIO} & {factor.sets for factor in declared.vary}
    ):
        raise DataError(
            f"{where}: a factor sets {min(sampling_factors)}, but nothing is drawn; write a table [sample]"
        )
    if not declared.fixed.get("benchmarks") and "benchmarks" not in {
        factor.sets for factor in declared.vary
    }:
        raise DataError(f"{where}: no benchmarks; write benchmarks = [...] under [fixed]")
    return replace(declared, sample=_sample(sample, where) if sample else None, folder=folder)


FormT = TypeVar("FormT")


def _converted(content: Mapping[str, Any], form: type[FormT], where: str) -> FormT:
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: {error}") from None


def _check_fields(
    fields: Mapping[str, Any], where: str, table: str, allowed: Sequence[str] = ()
) -> None:
    check_known(fields, allowed or FIXED, f"field of [{table}]", f"{where}: ")
    run_spec(
        {field: value for field, value in fields.items() if field not in NOT_OF_A_RUN},
        f"{where}: {table}: ",
    )


def _check_factors(factors: Sequence[Factor], where: str) -> None:
    names = [factor.name for factor in factors]
    if len(set(names)) < len(names):
        raise DataError(
            f"{where}: two factors are called {max(names, key=names.count)}; rename one of them"
        )
    for factor in factors:
        place = f"{where}: the factor {factor.name}"
        if factor.sets not in OF_A_CELL:
            raise DataError(f"{place}: {unknown('field', factor.sets, OF_A_CELL)}")
        if bool(factor.values) == bool(factor.file):
            raise DataError(f"{place} needs levels: either values = [...] or file = '...'")


def _sample(content: Mapping[str, Any], where: str) -> StudySample:
    rule = {name: value for name, value in content.items() if name not in ("by", "seed")}
    settings = {name: value for name, value in content.items() if name not in rule}
    return _converted(
        {**settings, "sampling": _converted(rule, Sampling, f"{where}: [sample]")},
        StudySample,
        where,
    )


# --- cells -----------------------------------------------------------------------------------------------------------


BASELINE = "baseline"
NEEDLESS_ENDS = " \t.,;:"
BLANK = "___"
_SLOT = re.compile(r"\{\}")


class CellSpec(Struct, frozen=True):
    """One combination of levels."""

    label: str
    """`prompt=a photo of a, seed=1`; `baseline`; empty where nothing varies."""
    levels: dict[str, str]
    """The label of each factor's level; none for the baseline."""
    fields: dict[str, Any]
    """Fields of a run that it sets, and those of the sample and of the build."""
    is_baseline: bool = False


class CellGrid(Struct, frozen=True):
    """All cells of a study."""

    factors: dict[str, tuple[str, ...]]
    """The labels of each factor's levels, in order."""
    cells: tuple[CellSpec, ...]
    """The first factor varies slowest; the baseline comes last."""
    notes: tuple[str, ...] = ()


def grid_of(
    study: StudySpec, own_levels: Mapping[str, Sequence[Any] | str | Path] | None = None
) -> CellGrid:
    """All combinations of levels, then the baseline; `own_levels` replace those of a factor.

    A text or path stands for a file with a level a line. Raises DataError for a level that cannot be read,
    UnknownNameError for a factor that the study has not.
    """
    chosen = own_levels or {}
    names = [factor.name for factor in study.vary]
    if strange := set(chosen) - set(names):
        raise unknown("factor", min(strange), names)
    notes: list[str] = []
    levels = {
        factor.name: _levels(factor, chosen.get(factor.name), study.folder, notes)
        for factor in study.vary
    }
    cells = [
        _cell(study.vary, combination)
        for combination in product(*(levels[name].items() for name in names))
    ]
    if study.baseline:
        cells.append(CellSpec(BASELINE, {}, study.baseline, is_baseline=True))
    return CellGrid(
        {name: tuple(labels) for name, labels in levels.items()}, tuple(cells), tuple(notes)
    )


def _cell(factors: Sequence[Factor], combination: Sequence[tuple[str, Any]]) -> CellSpec:
    levels: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for factor, (label, value) in zip(factors, combination, strict=True):
        levels[factor.name] = label
        fields[factor.sets] = value
    return CellSpec(_cell_label(levels), levels, fields)


def _cell_label(levels: Mapping[str, str]) -> str:
    """`prompt=a photo of a, seed=1`; of a single factor the level alone, unless it is a bare number."""
    alone = len(levels) == 1 and any(
        letter.isalpha() for level in levels.values() for letter in level
    )
    return ", ".join(level if alone else f"{name}={level}" for name, level in levels.items())


def _levels(
    factor: Factor, chosen: Sequence[Any] | str | Path | None, folder: Path | None, notes: list[str]
) -> dict[str, Any]:
    """The values of a factor by label."""
    if isinstance(chosen, (str, Path)):
        values = _lines(Path(chosen), factor.slot)
    elif chosen is not None:
        values = list(chosen)
    elif factor.file:
        values = _lines((folder or Path()) / factor.file, factor.slot)
    elif isinstance(factor.values, dict):
        return factor.values
    else:
        values = factor.values
    labelled = {_label(value): value for value in values}
    if not labelled:
        raise DataError(f"the factor {factor.name} has no level; give it at least one")
    if repeated := len(values) - len(labelled):
        notes.append(
            f"{factor.name}: {repeated} of {len(values)} levels are the same as an earlier one, and left out"
        )
    return labelled


def _label(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " + ".join(map(str, value))
    return "" if value is None else str(value)


def _lines(path: Path, slot: Slot) -> list[str]:
    """The levels in a text file, one a line. Raises DataError."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the levels ({error}); write one a line") from None
    return list(_phrases(path, lines, slot))


def _phrases(path: Path, lines: Sequence[str], slot: Slot) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if _SLOT.search(text):
            text = (
                _SLOT.sub(BLANK, text)
                if slot == "blank"
                else _SLOT.split(text)[0].rstrip(NEEDLESS_ENDS)
            )
        if not text:
            raise DataError(
                f"{path}:{number}: nothing stands before the place of the class; write slot = 'blank'"
            )
        yield text
