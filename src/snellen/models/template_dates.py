"""The date that chat templates write into prompts: a declared one, so that a prompt is the same on any day.

Templates ask for today's date by `strftime_now` (Mistral Small's default system prompt, Llama 3, Granite, gpt-oss). A
template that is rendered here, or whose text is here, gets a macro of that name before it, which looks the declared
date up. Servers render by themselves: those of Llama take the date as the setting `date_string`.
"""

from __future__ import annotations

import datetime
from fnmatch import fnmatchcase
from typing import Any

from snellen.errors import ModelError

DEFAULT_DATE = datetime.date(2024, 7, 26)
"""What Llama 3's own template writes where it cannot know the date."""
NOW = "strftime_now"
DATES = "snellen_dates"
"""The setting in which a template finds the declared date, by its format."""
# With `trim_blocks`, as transformers renders templates, the line end is not written.
MACRO = f"""{{% macro {NOW}(format) -%}}
{{%- if format in {DATES} -%}}{{{{ {DATES}[format] }}}}
{{%- else -%}}{{{{ raise_exception("the date is asked for in a form that is not spelled out: " ~ format) }}}}
{{%- endif -%}}{{%- endmacro %}}
"""
TAKES_DATE_STRING = ("*llama-3*", "*llama3*", "*llama-4*", "*llama4*")
"""Names of models whose templates take `date_string`, in the form of `LLAMA_FORM`."""
LLAMA_FORM = "%d %b %Y"
WRITES_TODAY = (
    "*mistral-small*",
    "*magistral*",
    "*devstral*",
    "*ministral*",
    "*granite-3*",
    "*granite-4*",
)
"""Names of models whose templates write the date of the day where the talk has no system prompt."""
ALWAYS_WRITES_TODAY = ("*gpt-oss*", "*smollm3*")
"""Names of models whose templates always write the date of the day."""
TODAY_NOTE = "the server may write today's date into the prompt"


def declared_date(text: str) -> datetime.date:
    """Return the date that an option names, as 2026-01-31; the default for an empty text. Raises ModelError."""
    if not text:
        return DEFAULT_DATE
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ModelError(f"date={text} is not a date; write it like {DEFAULT_DATE}") from None


def asks_for_date(template: str | None) -> bool:
    """Return whether a chat template asks for the date."""
    return template is not None and any(
        kind == "name" and value == NOW for kind, value in _tokens(template)
    )


def with_date(template: str, date: datetime.date) -> tuple[str, dict[str, Any]]:
    """Return a chat template that asks for the date with a date declared in it, and the variables to render it with."""
    dates = {}
    moment = datetime.datetime.combine(date, datetime.time())
    for kind, value in _tokens(template):
        if kind == "string" and "%" in value:
            form = value[1:-1]
            dates[form] = moment.strftime(form)
    return MACRO + template, {DATES: dates}


def chance_in(template: str | None) -> str:
    """Return the random part of a chat template, which makes prompts unrepeatable; empty if there is none."""
    before = ""
    for kind, value in _tokens(template or ""):
        if kind == "name" and value == "random" and before == "|":
            return "the filter random"
        if kind == "name" and value == "lipsum":
            return "lipsum()"
        if kind != "whitespace":
            before = value
    return ""


def _tokens(template: str) -> list[tuple[str, str]]:
    """Kinds and texts of a template's tokens; none of one that is no template, which rendering refuses with a reason."""
    from jinja2 import Environment, TemplateError

    try:
        return [(kind, value) for _, kind, value in Environment(autoescape=True).lex(template)]
    except TemplateError:
        return []


def date_setting(model: str, date: str) -> dict[str, str]:
    """Return the settings by which the chat template of a server is given the declared date, by the model's name.

    A `date` that the user names is sent whatever the model is called.
    """
    if not date and not _is_named(model, TAKES_DATE_STRING):
        return {}
    return {"date_string": declared_date(date).strftime(LLAMA_FORM)}


def date_note(model: str, has_system: bool) -> tuple[str, ...]:
    """Return a note if a served model's template writes today's date, which a system prompt may replace; else nothing."""
    writes = _is_named(model, ALWAYS_WRITES_TODAY)
    if not has_system:
        writes = writes or _is_named(model, WRITES_TODAY)
    return (TODAY_NOTE,) if writes else ()


def _is_named(model: str, patterns: tuple[str, ...]) -> bool:
    name = model.lower().rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in patterns)
