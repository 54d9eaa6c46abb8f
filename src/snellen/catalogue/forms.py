"""File formats that suites add (tables, submissions, predictions), and which one fits a file or a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen import registry
from snellen.catalogue.finding import suites
from snellen.catalogue.hooks import PredictionForm, SubmissionWriter, TableForm
from snellen.catalogue.loading import suite_facts
from snellen.errors import DataError


def table_forms() -> list[TableForm]:
    """All table formats; those of Snellen's own suites come first."""
    return [registry.find("table_forms", name) for name in registry.targets("table_forms")]


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
    return " or ".join(f"{form.title} ({form.page})" if form.page else form.title for form in table_forms())


def submission_writer(name: str, benchmarks: Sequence[str]) -> SubmissionWriter:
    """The named format; without a name that of the benchmarks' suite, or the only one there is.

    Raises UnknownNameError, and DataError where the choice is the user's.
    """
    forms = registry.targets("submission_forms")
    if not name:
        own = [
            form for suite in _suites_of(benchmarks) for form in suite_facts()[suite].hooks.get("submission_forms", ())
        ]
        choice = own if own else list(forms)
        if len(choice) != 1:
            raise DataError(
                f"there are {len(choice)} forms of files for servers; name one with --format: {', '.join(choice)}"
            )
        [name] = choice
    writer: SubmissionWriter = registry.find("submission_forms", name)
    return writer


def prediction_form(name: str, path: Path, answers: str) -> PredictionForm:
    """The named format; without a name that of the suite whose benchmark has the answers, the one that recognises
    the file, or the only one there is, whose errors say what is missing.

    Raises UnknownNameError, and DataError where the choice is the user's.
    """
    forms: dict[str, PredictionForm] = {
        name: registry.find("prediction_forms", name) for name in registry.targets("prediction_forms")
    }
    if name or len(forms) == 1:
        form: PredictionForm = registry.find("prediction_forms", name or next(iter(forms)))
        return form
    own = [form for suite in _suites_of([answers]) for form in suite_facts()[suite].hooks.get("prediction_forms", ())]
    fitting = own if len(own) == 1 else [name for name, form in forms.items() if form.recognises(path)]
    if len(fitting) != 1:
        fault = f"is of several forms ({', '.join(fitting)})" if fitting else "is of no form that is known"
        raise DataError(f"{path} {fault}; name one with --format: {', '.join(forms)}")
    return forms[fitting[0]]


def _suites_of(benchmarks: Sequence[str]) -> list[str]:
    return [name for name, specs in suites().items() if {spec.name for spec in specs} & set(benchmarks)]
