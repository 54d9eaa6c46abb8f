"""Named fields, such as the total of a receipt, in replies to questions of OCRBench v2."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

from snellen.errors import DataError

FIELDS = ("key information extraction", "key information mapping")
"""Types of question that ask for the values of named fields."""
FENCE = re.compile(r"```(?:python|json)?\n(.*?)\n```", re.DOTALL | re.IGNORECASE)
"""A block of code in a reply."""
_FIELD = re.compile(r"""([\w\s]++)["']?\s*[:=]\s*["']?([^\n,"'{}]+)""")
"""A field and its value in a reply that is no dictionary: `total: 12`."""


def field_score(reply: str, gold: str) -> float:
    """Return the share of named fields, such as `total` of a receipt, whose value in a reply is correct, in [0, 1].

    Fields that only the reply has count as wrong, and so do fields that it lacks. Values are compared in lower case
    and without spaces. The answer may accept several values for a field.

    Args:
        reply: A dictionary in the notation of JSON or Python, possibly in a code block, or lines such as `total:
            12`.
        gold: The answer: a dictionary in either notation. Each value is a text or a list of accepted texts.

    Examples:
        >>> field_score('{"total": "12.00", "tax": "1"}', "{'total': ['12.00', '$12.00'], 'tax': '2'}")
        0.5
    """
    expected = fields_of_answer(gold)
    given = fields_of_reply(reply)
    names = expected.keys() | given.keys()
    n_right = 0
    n_fields = 0
    for name in names:
        accepted = expected.get(name, [])
        value = given.get(name)
        if value is None and accepted == [None]:
            continue
        n_fields += 1
        if value is not None:
            plain_values = [_plain_value(text) for text in accepted if text is not None]
            n_right += _plain_value(value) in plain_values
    return n_right / n_fields if n_fields else 0.0


def correct_fields(gold: str) -> str:
    """Return a correct reply, as JSON, to a question about named fields: each with the first of its accepted values.

    Examples:
        >>> correct_fields("{'total': ['12.00', '$12.00']}")
        '{"total": "12.00"}'
    """
    first_values = {name: values[0] for name, values in fields_of_answer(gold).items() if values}
    return json.dumps(first_values, ensure_ascii=False)


def _plain_value(value: object) -> str:
    return str(value).lower().strip().replace("\n", " ").replace(" ", "")


def fields_of_answer(gold: str) -> dict[str, list[Any]]:
    """Return the accepted values of each field of an answer; an empty dict if the answer is not a dictionary."""
    parsed = parse_json_or_literal(gold.strip('"'))
    if isinstance(parsed, str):
        parsed = parse_json_or_literal(parsed)
    if not isinstance(parsed, dict):
        return {}
    return {
        str(name): values if isinstance(values, list) else [values]
        for name, values in parsed.items()
    }


def fields_of_reply(reply: str) -> dict[str, str]:
    """Return the fields that a reply names, with their values as texts; an empty dict if it names none."""
    fenced = FENCE.search(reply)
    content = fenced[1] if fenced else reply.strip()
    parsed = parse_json_or_literal(content)
    if parsed is None:
        return {name.strip(): value.strip() for name, value in _FIELD.findall(content)}
    if not isinstance(parsed, dict) or not all(isinstance(name, str) for name in parsed):
        return {}
    return {name.strip(): str(value).strip() for name, value in parsed.items()}


def parse_json_or_literal(text: str) -> Any:
    """Parse a text as JSON, or else as a literal of Python, such as `{'a': 1}`; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return parse_python_literal(text)


def parse_gold(gold: str) -> Any:
    """Parse an accepted answer that is written as JSON. Raises DataError if it is not."""
    try:
        return json.loads(gold)
    except ValueError:
        raise DataError(
            f"gold {gold[:60]!r} is not JSON, as an answer of this type of question in OCRBench v2 is"
        ) from None


def parse_python_literal(text: str) -> Any:
    """Parse a text as a literal of Python, such as `[(1, 2, 'a')]`; None if it is not one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of escapes that Python does not know, such as in '\\d'
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
