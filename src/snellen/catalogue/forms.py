"""File formats that suites add (tables, submissions, predictions), and which one fits a file or a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from snellen import registry
from snellen.callers import for_caller
from snellen.catalogue.loading import suite_facts
from snellen.catalogue.selection import suite_members
from snellen.catalogue.suites import PredictionForm, SubmissionWriter, TableForm
from snellen.errors import DataError


def table_forms() -> list[TableForm]:
    """Return all table formats, those of Snellen's own suites first."""
    return list(registry.loadable("table_forms").values())


def recognised_form(path: Path) -> TableForm | None:
    """Return the format of a suite that a table has, such as MMBench's; None for any other table.

    Raises:
        DataError: Two formats claim the file.
    """
    forms = [form for form in table_forms() if form.recognises(path)]
    if len(forms) > 1:
        raise DataError(
            f"{path} fits both {forms[0].title} and {forms[1].title}; write an entry that names a reader"
        )
    return forms[0] if forms else None


def titles_of_forms() -> str:
    """Return the titles of all table formats and the pages that describe them, as one text for error messages."""
    titles = []
    for form in table_forms():
        titles.append(f"{form.title} ({form.page})" if form.page else form.title)
    return " or ".join(titles)


def submission_writer(name: str, benchmarks: Sequence[str]) -> SubmissionWriter:
    """Return the function that writes a submission, that is, a run's replies as a file for an evaluation server.

    Args:
        name: Name of the format. If it is empty, it is the format of the benchmarks' suites or, if these have none,
            the only one for benchmarks of any suite.
        benchmarks: The benchmarks that are submitted.

    Raises:
        UnknownNameError: There is no format of this name.
        DataError: No name is given, and there is not exactly one format.
    """
    if not name:
        candidates = _forms_of_suites("submission_forms", benchmarks)
        if not candidates:
            writers = registry.loadable("submission_forms")
            for candidate, candidate_writer in writers.items():
                if not getattr(candidate_writer, "suite_only", False):
                    candidates.append(candidate)
        if len(candidates) != 1:
            raise DataError(
                f"there are {len(candidates)} submission formats; choose one with "
                f"{for_caller('--format', 'form')}: {', '.join(candidates)}"
            )
        [name] = candidates
    writer: SubmissionWriter = registry.find_registered("submission_forms", name)
    return writer


def prediction_form(name: str, path: Path, benchmark: str) -> tuple[str, PredictionForm] | None:
    """Return the format of a file of predictions, that is, of replies that another toolkit stored, with its name.

    Args:
        name: Name of the format. If it is empty, it is the one that fits the file; if several fit, it is the one of
            the benchmark's suite.
        path: The file.
        benchmark: The benchmark that was predicted.

    Returns:
        None if no format fits: the file is then a table like any other.

    Raises:
        UnknownNameError: There is no format of this name.
        DataError: The file does not have the named format, or several formats fit it.
    """
    if name:
        named_form: PredictionForm = registry.find_registered("prediction_forms", name)
        fault = named_form.fault(path, benchmark)
        if fault:
            raise DataError(f"{path} is not {named_form.title}: {fault}")
        return name, named_form

    forms: dict[str, PredictionForm] = registry.loadable("prediction_forms")
    fitting = [name for name, form in forms.items() if not form.fault(path, benchmark)]
    own_names = _forms_of_suites("prediction_forms", [benchmark])
    candidates = [name for name in fitting if name in own_names] or fitting
    if len(candidates) > 1:
        raise DataError(
            f"{path} fits several formats; choose one with {for_caller('--as', 'form')}: {', '.join(candidates)}"
        )
    if not candidates:
        return None
    [name] = candidates
    return name, forms[name]


def _forms_of_suites(
    group: Literal["submission_forms", "prediction_forms"], benchmarks: Sequence[str]
) -> list[str]:
    """Return the names of the file formats that the suites of some benchmarks add.

    Args:
        group: Formats of submissions to a leaderboard, or of predictions.
        benchmarks: Names of the benchmarks.
    """
    names: list[str] = []
    for suite, members in suite_members().items():
        has_one_of_them = not set(members).isdisjoint(benchmarks)
        if has_one_of_them:
            names.extend(suite_facts()[suite].hooks.get(group, ()))
    return names
