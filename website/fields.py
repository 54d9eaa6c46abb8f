"""`make fields`: writes what is made of the fields of a run's records, types of keywords and the tables of a page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from snellen.experiments.studies.declaration import NOT_FIXED
from snellen.runs.spec import (
    ExecutionSpec,
    JudgeSpec,
    QuestionSpec,
    RecordField,
    RoleModels,
    ScoringSpec,
    record_fields,
)

ROOT = Path(__file__).parent.parent
KEYWORDS = ROOT / "src" / "snellen" / "runs" / "keywords.pyi"
PAGE = ROOT / "docs" / "reference" / "run-fields.md"
BEGIN, END = "<!-- fields -->\n", "<!-- end of fields -->\n"
ARGUMENTS = ("models", "benchmarks", "protocols")
"""What has a place of its own in `evaluate`."""
STUB = '''"""The fields of a run as keywords of Python, for type checkers and editors. Written by `make fields`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from snellen.runs.spec import JudgeSpec, ScoringSpec

class ScoringKeywords(TypedDict, total=False):
{scoring}

class _SharedKeywords(TypedDict, total=False):
{shared}
    scoring: ScoringSpec | ScoringKeywords
    judge: JudgeSpec | Any

class RunKeywords(_SharedKeywords, total=False):
{run}

class StudyKeywords(_SharedKeywords, total=False):
{study}
'''


def keywords() -> str:
    """The text of `snellen.runs.keywords`."""
    everything = {**record_fields(QuestionSpec), **record_fields(ExecutionSpec)}
    return STUB.format(
        scoring=_lines(record_fields(ScoringSpec).values()),
        shared=_lines(field for name, field in everything.items() if name not in (*ARGUMENTS, *NOT_FIXED)),
        run=_lines(field for name, field in everything.items() if name in NOT_FIXED and name not in ARGUMENTS),
        study=_lines(field for name, field in everything.items() if name in ARGUMENTS and name not in NOT_FIXED),
    )


def _lines(fields: Iterable[RecordField]) -> str:
    return "\n".join(f"    {field.name}: {_written(field)}" for field in fields)


def _written(field: RecordField) -> str:
    """The type of a keyword, which takes a text for a list of texts, and a path for a text."""
    if field.type == RoleModels:
        return "Mapping[str, Any]"
    if field.choices:
        names = ", ".join(f'"{name}"' for name in field.choices)
        return "str | Iterable[str]" if field.is_list else f"Literal[{names}]"
    if field.is_list:
        return "str | Iterable[str]"
    form = "str | Path" if field.type is str else field.type.__name__ if not get_args(field.type) else str(field.type)
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


def _table(heading: str, form: type[Struct], before: str) -> str:
    rows = [f"| `{before}{field.name}` | {_unless(field)} | {_text(field)} |" for field in record_fields(form).values()]
    return "\n".join((heading, "", "| field | unless said | what |", "|---|---|---|", *rows, ""))


def _unless(field: RecordField) -> str:
    default: Any = field.default
    if field.option.unless or default in (None, (), ""):
        return field.option.unless
    if isinstance(default, float):
        return f"{default:g}"
    return f"`{default}`" if isinstance(default, str) else json.dumps(default)


def _text(field: RecordField) -> str:
    choices = f" One of {', '.join(f'`{name}`' for name in field.choices)}." if field.choices else ""
    page = f" See [{field.option.page}](../{field.option.page})." if field.option.page else ""
    return f"{field.option.help}{choices}{page}"


def page(text: str) -> str:
    """A page with the tables between its marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{tables()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    KEYWORDS.write_text(keywords(), "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
