"""Write a fixed date into prompts whose chat template asks for today's date.

Without it, the same question would have another prompt on another day, and replies could not be
compared.

Templates get today's date by calling `strftime_now` (Mistral Small's default system prompt, Llama
3, Granite, gpt-oss). If Snellen renders the template, or has its text, a macro of this name is put
in front of it, which returns the fixed date. If a server renders the template, the date can only be
sent to it as a setting; the templates of Llama read it from `date_string`.
"""

from __future__ import annotations

import datetime
from fnmatch import fnmatchcase
from typing import Any

from snellen.errors import ModelError

DEFAULT_DATE = datetime.date(2024, 7, 26)
"""The date that Llama 3's own template writes if it has no way to find out the present date."""
NOW = "strftime_now"
DATES = "snellen_dates"
"""The template variable with the fixed date in each format that the template uses: `{"%d %b %Y": "26 Jul 2024"}`."""
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
"""Names of models whose templates write today's date if the conversation has no system prompt."""
ALWAYS_WRITES_TODAY = ("*gpt-oss*", "*smollm3*")
"""Names of models whose templates always write today's date."""
TODAY_NOTE = "the server may write today's date into the prompt"


def declared_date(text: str) -> datetime.date:
    """Return the date in the user's option `date`, such as `2026-01-31`; 2024-07-26 if the text is empty.

    Raises ModelError if the text is not a date.
    """
    if not text:
        return DEFAULT_DATE
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ModelError(f"date={text} is not a date; write it like {DEFAULT_DATE}") from None


def asks_for_date(template: str | None) -> bool:
    """Return whether a chat template calls `strftime_now` to get today's date. None, for no template, gives False."""
    return template is not None and any(
        kind == "name" and value == NOW for kind, value in _tokens(template)
    )


def with_date(template: str, date: datetime.date) -> tuple[str, dict[str, Any]]:
    """Return a chat template that writes a fixed date, and the variables to render it with.

    Args:
        template: The template, which asks for today's date.
        date: The date to write instead.

    Returns:
        The template with a macro `strftime_now` in front of it; and the variables, in which the
        macro finds the date in each format that the template uses.
    """
    dates = {}
    moment = datetime.datetime.combine(date, datetime.time())
    for kind, value in _tokens(template):
        if kind == "string" and "%" in value:
            form = value[1:-1]
            dates[form] = moment.strftime(form)
    return MACRO + template, {DATES: dates}


def chance_in(template: str | None) -> str:
    """Return the name of a random function in a chat template, such as `lipsum()`; empty if it has none.

    Such a template writes another prompt each time, so that a run with it cannot be repeated.
    """
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
    """Return the kind and the text of each token of a chat template, such as ("name", "strftime_now").

    The list is empty if the template has a syntax error. The error is reported when it is rendered.
    """
    from jinja2 import Environment, TemplateError

    try:
        return [(kind, value) for _, kind, value in Environment(autoescape=True).lex(template)]
    except TemplateError:
        return []


def date_setting(model: str, date: str) -> dict[str, str]:
    """Return the settings that tell a server's chat template the date, as `{"date_string": "26 Jul 2024"}`.

    Args:
        model: Name of the model, which shows whether its template reads this setting.
        date: The date that the user gave. It is sent to any model. If it is empty, the default date
            is sent to models that are known to read it.

    Returns:
        The settings; empty if no date is sent.
    """
    if not date and not _is_named(model, TAKES_DATE_STRING):
        return {}
    return {"date_string": declared_date(date).strftime(LLAMA_FORM)}


def date_note(model: str, has_system: bool) -> tuple[str, ...]:
    """Return a note for the responses of a served model whose chat template writes today's date.

    Args:
        model: Name of the model. Only known models have a note.
        has_system: Whether the conversation has a system prompt, which replaces the date in some
            templates.

    Returns:
        A tuple with the note; empty if the template is not known to write the date.
    """
    writes = _is_named(model, ALWAYS_WRITES_TODAY)
    if not has_system:
        writes = writes or _is_named(model, WRITES_TODAY)
    return (TODAY_NOTE,) if writes else ()


def _is_named(model: str, patterns: tuple[str, ...]) -> bool:
    name = model.lower().rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in patterns)
