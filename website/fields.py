"""`make fields`: writes what is made of records: types of a run's keywords, and tables of pages between their marks.

A page has `<!-- table NAME -->` and `<!-- end of table -->` around a table of `TABLES`.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from snellen.building.spec import (
    BUILD_FIELDS,
    BuildSpec,
    Columns,
    EntrySpec,
    ReformSpec,
    TableSpec,
)
from snellen.catalogue.entries import BenchmarkSpec, PromptSet, SourceSpec
from snellen.catalogue.published_number import PublishedJudge, PublishedNumber, Reproduction
from snellen.catalogue.suites import HOOK_GROUPS, AsPublished, HookGroup, Suite
from snellen.common.record_fields import RecordField, record_fields
from snellen.experiments.compare_spec import CompareSpec, GateSpec, SubsetSpec
from snellen.runs.spec import ExecutionSpec, JudgeSpec, QuestionSpec, ScoringSpec

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "snellen"
LAB = ROOT / "packages" / "snellen-lab"
REFERENCE = ROOT / "docs" / "reference"
PAGES = [
    REFERENCE / f"{name}.md"
    for name in ("run-fields", "build-fields", "entry-fields", "suite-fields", "comparison")
]
MARKED = re.compile(r"(<!-- table (.*?) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)
ARGUMENTS = ("models", "benchmarks", "protocols")
"""What has a place of its own in `evaluate`."""
RUN_STUB = '''"""The fields of a run as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from {home} import JudgeSpec, ScoringSpec

class ScoringKeywords(TypedDict, total=False):
{scoring}

class RunKeywords(TypedDict, total=False):
{run}
    scoring: ScoringSpec | ScoringKeywords
    judge: JudgeSpec | Any
'''
STUDY_STUB = """
class StudyKeywords(TypedDict, total=False):
{study}
    scoring: ScoringSpec | ScoringKeywords
    judge: JudgeSpec | Any
"""


BUILD_STUB = '''"""The fields of builds as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

class BuildKeywords(TypedDict, total=False):
{build}

class ReformKeywords(TypedDict, total=False):
{reform}
'''


def build_keywords() -> str:
    """Return the text of `snellen.building.keywords`."""
    return BUILD_STUB.format(
        build=_lines(BUILD_FIELDS.values()), reform=_lines(record_fields(ReformSpec).values())
    )


COMPARE_STUB = '''"""The fields of a comparison as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypedDict

class CompareKeywords(TypedDict, total=False):
{compare}
'''


def compare_keywords() -> str:
    """Return the text of `snellen.experiments.keywords`."""
    return COMPARE_STUB.format(compare=_lines(record_fields(CompareSpec).values()))


def run_keywords(home: str = "snellen.runs.spec") -> str:
    """Return the text of `snellen.runs.keywords`, with the records of a run imported from `home`."""
    run = [field for name, field in _run_fields().items() if name not in ARGUMENTS]
    scoring = record_fields(ScoringSpec).values()
    return RUN_STUB.format(home=home, scoring=_lines(scoring), run=_lines(run))


def lab_keywords() -> str:
    """Return the text of `snellen_lab.keywords`, which has the keywords of studies, too."""
    from snellen_lab.studies.declaration import NOT_FIXED

    study = [field for name, field in _run_fields().items() if name not in NOT_FIXED]
    return run_keywords("snellen") + STUDY_STUB.format(study=_lines(study))


def _run_fields() -> dict[str, RecordField]:
    return {**record_fields(QuestionSpec), **record_fields(ExecutionSpec)}


def _lines(fields: Iterable[RecordField]) -> str:
    return "\n".join(f"    {field.name}: {_written(field)}" for field in fields)


def _written(field: RecordField) -> str:
    """The type of a keyword, which takes a text for a list of texts, and a path for a text."""
    if field.type == Columns:
        return "Mapping[str, str | Iterable[str]]"
    if field.is_table:
        return "Mapping[str, Any]"
    if field.is_list and get_args(field.type)[0] is Any:
        return "Iterable[Any]"
    if field.is_list:
        return "str | Iterable[str]"
    if field.type is Any:
        return "Any"
    if field.choices:
        names = ", ".join(f'"{name}"' for name in field.choices)
        form = f"Literal[{names}]"
    elif field.type is str:
        form = "str | Path"
    elif get_args(field.type):
        form = str(field.type)
    else:
        form = field.type.__name__
    return f"{form} | None" if field.default is None else form


def tables() -> str:
    """The fields in Markdown, a table for each record."""
    parts = (
        ("**The questions.** Runs that ask the same are one run.", QuestionSpec, ""),
        ("**How it is carried out.** No answer depends on it.", ExecutionSpec, ""),
        (
            "**How replies are scored**: the table `[scoring]`, a `ScoringSpec`; keywords of `score`,\n`evaluate(..., "
            "scoring=sn.ScoringSpec(...))`, and flags of `snellen run`, `score`, `report` and others.",
            ScoringSpec,
            "scoring.",
        ),
        (
            "**Who judges**: the table `[judge]`, a `JudgeSpec` ([judging.md](../judging.md)); `judge=` of `evaluate`\n"
            "and `score`, which also take a model string, an object or a list of these in its place. A flag has\n"
            "`judge-` before the field's name, and `--judge` is its `models`.",
            JudgeSpec,
            "judge.",
        ),
    )
    return "\n".join(_table(*part) for part in parts)


def build_tables() -> str:
    """Return the fields of builds in Markdown, a table for each record."""
    parts = (
        ("**Every build**", BuildSpec, ""),
        ("**Benchmarks of the catalogue** alone", EntrySpec, ""),
        ("**Your own questions** alone ([own-data.md](../own-data.md))", TableSpec, ""),
        ("**Questions from annotations** ([reform.md](../reform.md)): `reform`", ReformSpec, ""),
    )
    return "\n".join(_table(*part) for part in parts)


def compare_tables() -> str:
    """Return the fields of comparisons in Markdown, a table for each record."""
    parts = (
        ("**How runs are compared**: also keywords of `Results.compare`", CompareSpec, ""),
        ("**Which questions count**: also keywords of `Results.only`", SubsetSpec, ""),
        ("**Gates** ([gate.md](../gate.md)): flags alone", GateSpec, ""),
    )
    return "\n".join(_table(*part) for part in parts)


def _table(heading: str, form: type[Struct], before: str) -> str:
    rows = [
        f"| `{before}{field.name}` | {_unless(field)} | {_text(field)} |"
        for field in record_fields(form).values()
    ]
    return "\n".join((heading, "", "| field | unless said | what |", "|---|---|---|", *rows, ""))


def _unless(field: RecordField) -> str:
    default: Any = field.default
    if field.option.unless or default in (None, (), "", {}):
        return field.option.unless
    if isinstance(default, float):
        return f"{default:g}"
    return f"`{default}`" if isinstance(default, str) else json.dumps(default)


def _text(field: RecordField) -> str:
    choices = (
        f" One of {', '.join(f'`{name}`' for name in field.choices)}." if field.choices else ""
    )
    in_python = f" In Python: {field.option.in_python}" if field.option.in_python else ""
    page = f" See [{field.option.page}](../{field.option.page})." if field.option.page else ""
    return f"{field.option.help}{choices}{in_python}{page}"


def form_table(form: type[Struct], **defaults: str) -> str:
    """The fields of a record that a user writes in TOML, with the docstrings below them; `defaults` are in words, where
    a file may leave out what the record needs."""
    texts = {name: text for base in reversed(form.__mro__) for name, text in _docstrings(base)}
    rows = [
        f"| `{name}` | {_kind(field.type)} | {defaults.get(name) or _default(field)} | {texts[name]} |"
        for field in msgspec.structs.fields(form)
        for name in (field.name,)
    ]
    return "\n".join(("| field | value | default | meaning |", "|---|---|---|---|", *rows, ""))


def _docstrings(form: type) -> Iterator[tuple[str, str]]:
    """The fields of a class with the text below each, on one line."""
    if not issubclass(form, Struct) or form is Struct:
        return
    [body] = ast.parse(textwrap.dedent(inspect.getsource(form))).body
    assert isinstance(body, ast.ClassDef)
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant), (
                f"{field.target.id} has no meaning"
            )
            yield field.target.id, " ".join(str(below.value.value).split()).replace("|", "\\|")


_KINDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}


def _kind(kind: Any) -> str:
    """What a value of a type is called in words."""
    if get_origin(kind) is Annotated:
        return _kind(get_args(kind)[0])
    arguments = [argument for argument in get_args(kind) if argument is not type(None)]
    if kind in _KINDS:
        return _KINDS[kind]
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if get_origin(kind) is tuple:
        return "texts" if _kind(arguments[0]) == "text" else "tables"
    if get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, Struct)):
        return "table"
    return ", ".join(map(_kind, arguments))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    return (
        json.dumps(field.default)
        if isinstance(field.default, (int, float))
        else f"`{field.default}`" * bool(isinstance(field.default, str) and field.default)
    )


HOOKS: dict[HookGroup, tuple[str, str]] = {
    "readers": ("`read(params, folder)`, which yields `Draft`s", "`[source] reader = ...`"),
    "metrics": (
        "a declared metric or a plain function ([metrics](../metrics.md))",
        "`metrics = [...]`, `--metric`",
    ),
    "protocols": (
        "a protocol: a class, by default a record of its options ([example](../../CONTRIBUTING.md#a-protocol))",
        "`-p NAME`, `generation` and `likelihood` of suites and entries",
    ),
    "models": (
        "a function from the parsed string to any object with `generate` ([own models](../tutorials/own-model.md))",
        "model strings `NAME:...`",
    ),
    "transforms": (
        "`transform(texts)`, which gives the changed texts",
        "`{field:NAME}` in the templates of the reader `mapped`",
    ),
    "extractors": (
        "a function of reply, options and labels, or a `NamedExtractor` ([below](#an-extractor))",
        "`--extractor`, `[as_published]`",
    ),
    "judge_prompts": ("a `JudgePrompt`, by its version", "`--judge-prompt`"),
    "matching_prompts": ("the version of a `JudgePrompt`", "`--judge-prompt`, `[as_published]`"),
    "templates": (
        "`PromptTemplates`, loaded by `packaged_templates` ([their form](protocol-fields.md#templates))",
        "`--templates`, `[as_published]`, `form` of a set of prompts, `prompts` of the protocol `reasoning`",
    ),
    "table_forms": ("a `TableForm`: tables that your reader reads", "`snellen build FILE`"),
    "submission_forms": (
        "a function that writes a run as a server's file (`SubmissionWriter`)",
        "`snellen submit --format`",
    ),
    "prediction_forms": (
        "a `PredictionForm`: a file of predictions becomes a run ([predictions](../predictions.md))",
        "`snellen score FILE --as`",
    ),
    "importers": (
        "an `Importer`: published data, from a folder or the hub",
        "`snellen import NAME`; with `names`, also the last place that benchmarks are downloaded from",
    ),
    "report_tables": ("`SuiteTables`: tables in the section *Suites*", "every report"),
    "rating_studies": (
        "a `RatingStudy`, read by `read_rating_study` from a TOML file",
        "`snellen rate --study NAME` ([ratings](../ratings.md))",
    ),
    "study_statistics": (
        "a `StudyStatistic` of snellen-lab: what is computed over the cells of a study ([studies](../studies.md))",
        "`statistics = [...]` of a study",
    ),
    "analysis_statistics": (
        "an `AnalysisStatistic` of snellen-lab, over groups of models ([analyses](../analyses.md))",
        "`statistic` of an analysis",
    ),
    "analysis_measures": ("a function from a run to `Measured` values", "`measure` of an analysis"),
    "acuity_tests": (
        "an `AcuityTest` of snellen-lab ([acuity](../acuity.md))",
        "the reader `acuity`",
    ),
}
"""What a name of each group of hooks stands for, and where it is used."""


def hook_table() -> str:
    """All groups of hooks."""
    rows = [f"| `{group}` | {' | '.join(HOOKS[group])} |" for group in HOOK_GROUPS]
    return "\n".join(("| group | a name stands for | used by |", "|---|---|---|", *rows, ""))


TABLES: dict[str, Callable[[], str]] = {
    "run": tables,
    "build": build_tables,
    "compare": compare_tables,
    "entry": partial(form_table, BenchmarkSpec, name="that of its file"),
    "source": partial(form_table, SourceSpec),
    "prompts": partial(form_table, PromptSet),
    "published": partial(form_table, PublishedNumber),
    "published judge": partial(form_table, PublishedJudge),
    "reproductions": partial(form_table, Reproduction),
    "suite": partial(form_table, Suite),
    "as published": partial(form_table, AsPublished),
    "hooks": hook_table,
}
"""What stands on pages between marks of these names."""


def page(text: str) -> str:
    """A page with the tables between its marks."""
    return MARKED.sub(lambda marks: f"{marks[1]}\n{TABLES[marks[2]]()}\n{marks[3]}", text)


STUBS: dict[Path, Callable[[], str]] = {
    SOURCES / "runs" / "keywords.pyi": run_keywords,
    SOURCES / "building" / "keywords.pyi": build_keywords,
    SOURCES / "experiments" / "keywords.pyi": compare_keywords,
}
if LAB.exists():
    STUBS[LAB / "src" / "snellen_lab" / "keywords.pyi"] = lab_keywords
"""Stub files of keywords, with the functions that write their text."""

if __name__ == "__main__":
    for stub, text in STUBS.items():
        stub.write_text(text(), "utf-8")
    for file in PAGES:
        file.write_text(page(file.read_text("utf-8")), "utf-8")
