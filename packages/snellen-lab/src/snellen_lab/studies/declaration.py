"""Declaration of a study in a TOML file: what is fixed, what varies, which metrics and which statistics.

docs/studies.md shows each field in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    declared_files,
    names_of,
    overlaid,
    parse_toml,
    run_spec,
    unknown_name,
)

# Fields of a factor that varies which samples are drawn.
SAMPLE_SEED = "sample.seed"
SAMPLE_RATIO = "sample.ratio"
# Fields of a factor that varies how benchmarks are built: the number of options, and the source of distractors.
BUILD_OPTIONS = "build.options"
BUILD_DISTRACTORS = "build.distractors"
NOT_OF_A_RUN = (SAMPLE_SEED, SAMPLE_RATIO, BUILD_OPTIONS, BUILD_DISTRACTORS)
OF_A_CELL = (*(name for name in QuestionSpec.__struct_fields__ if name != "models"), *NOT_OF_A_RUN)
"""Fields that may differ between the cells of a study: of the questions, the sample and the build."""
NOT_FIXED = ("models", "name", "label", "runs", "report", "judge")
"""Fields of a run that the study or its caller sets."""
FIXED = tuple(name for name in RUN_FIELDS if name not in NOT_FIXED)
"""Fields of a run that a study may fix."""
Slot = Literal["cut", "blank"]


class StudySample(Struct, frozen=True):
    """Sample of each benchmark: a rule with its amounts, as for `snellen sample`."""

    sampling: Sampling
    by: str = ""
    """Tag by which the sample is balanced; the answer if empty."""
    seed: int = 0


class Factor(Struct, frozen=True, forbid_unknown_fields=True):
    """A factor of a study. Its levels are `values`, a list or a table by label, or the lines of `file`."""

    name: str
    field: str = ""
    """Field that it sets: of a run, of the sample (`sample.seed`) or of the build (`build.options`). The factor's name if
    empty."""
    values: list[Any] | dict[str, Any] = []
    file: str = ""
    """Text file next to the study's with a level per line. Lines that begin with # are comments."""
    slot: Slot = "cut"
    """What replaces the slot for a class in a line (`a photo of a {}.`): `cut` keeps the words before it, `blank` writes
    `___`."""

    @property
    def sets(self) -> str:
        """The field that it sets."""
        return self.field or self.name


class StudySpec(Struct, frozen=True, kw_only=True):
    """A declared study."""

    name: str
    title: str
    about: str = ""
    """What the study reproduces, such as a table of a paper."""
    notes: tuple[str, ...] = ()
    """Notes for readers of its numbers."""
    fixed: dict[str, Any] = {}
    """Fields of a run that all cells share."""
    sample: StudySample | None = None
    vary: tuple[Factor, ...] = ()
    baseline: dict[str, Any] = {}
    """Fields of a run for one more cell, which is shown with the others but left out of their statistics."""
    metrics: tuple[str, ...] = ()
    """Rows of metrics; each benchmark's headline if empty."""
    statistics: tuple[Annotated[str, names_of("study_statistics")], ...] = (
        "cells",
        "spread",
        "variance",
        "pairs",
    )
    """Names of the registry's group `study_statistics`."""
    folder: Path | None = None
    """Folder of the files that its factors name; None for a study without a file."""

    def with_settings(self, settings: Mapping[str, Any]) -> StudySpec:
        """Return the study with other fields of a run. Fields that are tables are overlaid field by field.

        Raises DataError for a field that a factor varies.
        """
        check_known(settings, FIXED, "field", "")
        varied = {factor.sets for factor in self.vary}.intersection(settings)
        if varied:
            raise DataError(
                f"{self.name} varies {min(varied)}; give its levels instead of one value"
            )
        return replace(self, fixed=overlaid(self.fixed, settings))

    def with_metrics(self, metrics: Sequence[str]) -> StudySpec:
        """Return the study with other metrics, if any are named."""
        return replace(self, metrics=tuple(metrics)) if metrics else self


def find_study(name: str) -> StudySpec:
    """Return the study in a file (`mine.toml`), or with that name.

    Raises UnknownNameError, and DataError for a wrong file.
    """
    file = declared_file("study", name)
    return parse_study(file.text, file.name, file.where, Path(file.where).parent)


def studies() -> dict[str, StudySpec]:
    """Return all studies that suites and named folders declare, by name. Raises DataError for a wrong file."""
    return {name: find_study(name) for name in declared_files("study")}


def list_studies() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of `snellen list studies`."""
    rows: list[tuple[str, ...]] = []
    for name, study in studies().items():
        factors = ", ".join(factor.name for factor in study.vary) or "-"
        benchmarks = ", ".join(study.fixed["benchmarks"])
        rows.append((name, study.title, factors, benchmarks))
    return ("study", "title", "varies", "benchmarks"), rows


def parse_study(text: str, name: str, where: str, folder: Path | None = None) -> StudySpec:
    """Return the study in the text of a file. Raises DataError or UnknownNameError, beginning with `where`."""
    content = parse_toml(text, where)
    fields = [field for field in StudySpec.__struct_fields__ if field not in ("name", "folder")]
    unknown_fields = set(content) - set(fields)
    if unknown_fields:
        raise DataError(f"{where}: {unknown_name('field', min(unknown_fields), fields)}")

    sample_content = _converted(content.pop("sample", {}), dict[str, Any], f"{where}: sample")
    study = _converted({**content, "name": name}, StudySpec, where)
    _check_fields(study.fixed, where, "fixed")
    _check_fields(study.baseline, where, "baseline", OF_A_CELL)
    check_names(study, where)
    _check_factors(study.vary, where)

    varied = {factor.sets for factor in study.vary}
    sample_fields = varied & {SAMPLE_SEED, SAMPLE_RATIO}
    if sample_fields and not sample_content:
        raise DataError(
            f"{where}: a factor sets {min(sample_fields)}, but the study has no table [sample]; add one"
        )
    if not study.fixed.get("benchmarks") and "benchmarks" not in varied:
        raise DataError(
            f"{where}: the study names no benchmarks; write benchmarks = [...] under [fixed]"
        )
    sample = _sample(sample_content, where) if sample_content else None
    return replace(study, sample=sample, folder=folder)


FormT = TypeVar("FormT")


def _converted(content: Mapping[str, Any], form: type[FormT], where: str) -> FormT:
    """Convert content of a file to this type; `where` is the file and table for the error message."""
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: {error}") from None


def _check_fields(
    fields: Mapping[str, Any], where: str, table: str, allowed: Sequence[str] = ()
) -> None:
    """Check the fields in a table of a study's file, and that a run accepts their values.

    Args:
        fields: The values by field.
        where: The file, for error messages.
        table: Name of the table, such as `fixed`.
        allowed: Fields that the table may have; by default those that are fixed for all cells.

    Raises:
        DataError: If a value is invalid.
        UnknownNameError: If a field is not allowed.
    """
    check_known(fields, allowed or FIXED, f"field of [{table}]", f"{where}: ")
    run_fields = {field: value for field, value in fields.items() if field not in NOT_OF_A_RUN}
    run_spec(run_fields, f"{where}: {table}: ")


def _check_factors(factors: Sequence[Factor], where: str) -> None:
    """Check that the factors of a study have different names, known fields and levels. Raises DataError."""
    names = [factor.name for factor in factors]
    if len(set(names)) < len(names):
        raise DataError(
            f"{where}: two factors are named {max(names, key=names.count)}; rename one of them"
        )
    for factor in factors:
        label = f"{where}: the factor {factor.name}"
        if factor.sets not in OF_A_CELL:
            raise DataError(f"{label}: {unknown_name('field', factor.sets, OF_A_CELL)}")
        if bool(factor.values) == bool(factor.file):
            raise DataError(f"{label} needs levels: either values = [...] or file = '...'")


def _sample(content: Mapping[str, Any], where: str) -> StudySample:
    """Return the sample that the table [sample] declares: a rule with its amounts, `by` and `seed`."""
    rule: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for name, value in content.items():
        if name in ("by", "seed"):
            settings[name] = value
        else:
            rule[name] = value
    settings["sampling"] = _converted(rule, Sampling, f"{where}: [sample]")
    return _converted(settings, StudySample, where)
