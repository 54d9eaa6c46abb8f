"""The cells of a study: every combination of its factors' levels, and the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import read_text, unknown_name
from snellen_lab.studies.declaration import Factor, Slot, StudySpec

BASELINE = "baseline"
BLANK = "___"
SLOT = "{}"
TRAILING = " \t.,;:"
"""Characters that are removed from the end of the words before a slot."""


class CellSpec(Struct, frozen=True):
    """A cell of a study: one combination of levels, such as prompt "a photo of a" and seed 1."""

    label: str
    """`prompt=a photo of a, seed=1`; `baseline`; empty if nothing varies."""
    levels: dict[str, str]
    """Label of each factor's level; empty for the baseline."""
    fields: dict[str, Any]
    """Fields that it sets: of a run, of the sample and of the build."""
    is_baseline: bool = False


class CellGrid(Struct, frozen=True):
    """All cells of a study."""

    factors: dict[str, tuple[str, ...]]
    """Labels of each factor's levels, in order."""
    cells: tuple[CellSpec, ...]
    """The first factor varies slowest; the baseline comes last."""
    notes: tuple[str, ...] = ()


def grid_of(
    study: StudySpec, own_levels: Mapping[str, Sequence[Any] | str | Path] | None = None
) -> CellGrid:
    """Return all cells of a study: each combination of its factors' levels, then any baseline.

    Args:
        study: The study.
        own_levels: Levels that replace those of a factor. A text or path names a file with one
            level per line.

    Raises:
        DataError: If the levels cannot be read.
        UnknownNameError: If the study has no such factor.
    """
    replaced = own_levels or {}
    names = [factor.name for factor in study.vary]
    unknown_names = set(replaced) - set(names)
    if unknown_names:
        raise unknown_name("factor", min(unknown_names), names)

    notes: list[str] = []
    values_by_label: dict[str, dict[str, Any]] = {}  # for each factor
    for factor in study.vary:
        own = replaced.get(factor.name)
        values_by_label[factor.name] = _levels(factor, own, study.folder, notes)

    cells = []
    levels_by_factor = [values_by_label[name].items() for name in names]
    for combination in product(*levels_by_factor):
        cells.append(_cell(study.vary, combination))
    if study.baseline:
        cells.append(CellSpec(BASELINE, {}, study.baseline, is_baseline=True))
    labels_by_factor = {name: tuple(values) for name, values in values_by_label.items()}
    return CellGrid(labels_by_factor, tuple(cells), tuple(notes))


def _cell(factors: Sequence[Factor], combination: Sequence[tuple[str, Any]]) -> CellSpec:
    """Return the cell of a combination of levels.

    Args:
        factors: The factors of the study, such as the prompt or the seed.
        combination: The label and the value of one level of each factor.
    """
    level_labels: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for factor, (label, value) in zip(factors, combination, strict=True):
        level_labels[factor.name] = label
        fields[factor.sets] = value
    return CellSpec(_cell_label(level_labels), level_labels, fields)


def _cell_label(levels: Mapping[str, str]) -> str:
    """Return the label of a cell, such as `prompt=a photo of a, seed=1`.

    With a single factor, a level that contains a letter is its own label: `a photo of a`, but
    `seed=1`.
    """
    if len(levels) == 1:
        [level] = levels.values()
        if any(character.isalpha() for character in level):
            return level
    return ", ".join(f"{name}={level}" for name, level in levels.items())


def _levels(
    factor: Factor, chosen: Sequence[Any] | str | Path | None, folder: Path | None, notes: list[str]
) -> dict[str, Any]:
    """Return the levels of a factor by their labels. A note on repeated ones is added to `notes`."""
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
    labelled = {_level_label(value): value for value in values}
    if not labelled:
        raise DataError(f"the factor {factor.name} has no levels; give it at least one")
    n_repeated = len(values) - len(labelled)
    if n_repeated:
        notes.append(
            f"{factor.name}: {n_repeated} of {len(values)} levels repeat an earlier one and were left out"
        )
    return labelled


def _level_label(value: Any) -> str:
    """Return the label of a level: 0.5 gives "0.5", None gives "", and ["a", "b"] gives "a + b"."""
    if isinstance(value, (list, tuple)):
        return " + ".join(str(element) for element in value)
    return "" if value is None else str(value)


def _lines(path: Path, slot: Slot) -> list[str]:
    """Return the levels in a text file, one per line.

    Empty lines and those that begin with # are skipped. Where a line has a slot for a class name,
    it is treated as `slot` says. Raises DataError.
    """
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the levels ({error}); write one per line") from None
    levels = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if SLOT in text and slot == "blank":
            text = text.replace(SLOT, BLANK)
        elif SLOT in text:
            text = text.partition(SLOT)[0].rstrip(TRAILING)
        if not text:
            raise DataError(
                f"{path}:{number}: the line begins with the class name; write slot = 'blank'"
            )
        levels.append(text)
    return levels
