"""Read replies that are JSON objects with the answer in one field: `{"answer": "B", "reason": "..."}`.

The object may also be inside a fenced block of Markdown.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from snellen.recognition.columns import PARTLY, name_score
from snellen.recognition.folding import as_text, folded, folded_name
from snellen.recognition.reply_names import is_name_of_reply

MOSTLY = 0.5
"""A field is read in all replies only if more than this share of them have it."""
_FENCE = re.compile(r"```(?:json|python)?\s*(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"\{(?=\s*[\"'])")
"""The beginning of an object with a field, and not of a group in LaTeX."""
LONGEST_LITERAL = 20_000
"""The most characters of a dictionary in Python's notation that is read."""


def answer_field(replies: Iterable[str], golds: Iterable[str], gold_column: str) -> str:
    """Return the name of the field with the answer, in replies that are JSON objects.

    It is a field named like the column of right answers, or named like an answer in general
    (`final_answer`); otherwise the only field whose values are mostly right answers.

    Args:
        replies: The replies.
        golds: The right answers of the file.
        gold_column: The column that has the right answers.

    Returns:
        The name; empty if most replies are no JSON objects, or if several fields may be the answer.
    """
    given = [reply for reply in replies if reply.strip()]
    right = {folded(gold) for gold in golds if gold.strip()}
    if not given or any(json_objects(gold) for gold in list(right)[:20]):
        return ""
    counts: Counter[str] = Counter()
    met: Counter[str] = Counter()
    for reply in given:
        for name, value in _fields(reply).items():
            counts[name] += 1
            met[name] += folded(value) in right
    common = [name for name, count in counts.items() if count > MOSTLY * len(given)]
    own_name = folded_name(gold_column.rpartition(".")[2])
    ranked = sorted(common, key=lambda name: -_certainty(name, own_name))
    if ranked and _certainty(ranked[0], own_name):
        return ranked[0]
    in_words = [name for name in common if met[name] > MOSTLY * counts[name]]
    if len(in_words) == 1:
        return in_words[0]
    return common[0] if len(common) == 1 else ""


def _certainty(name: str, own_name: str) -> float:
    """Return how certainly a field is the answer, by its name: from 0 to 2.

    Args:
        name: The name of the field.
        own_name: The name of the column of right answers, in small letters.
    """
    called = folded_name(name)
    if called.startswith("final_"):
        return 2.0
    if name_score("answer", name) > PARTLY or called == own_name:
        return 1.0 + name_score("answer", name)
    if is_name_of_reply(name):
        return PARTLY
    words = set(called.split("_"))
    return PARTLY / 2 if words & _OF_ANSWERS else 0.0


_OF_ANSWERS = frozenset(
    "answer choice option label class classification selected verdict category".split()
)


def field_of_reply(reply: str, field: str) -> str:
    """Return a field of a reply that is a JSON object or contains one; the whole reply if it has no such field.

    The field is also found in a reply that was cut off before the end of its object.

    Examples:
        >>> field_of_reply('```json\\n{"answer": "B", "reason": "A is red"}\\n```', "answer")
        'B'
        >>> field_of_reply('{"answer": 3, "reason": "there are', "answer")
        '3'
    """
    value = _fields(reply).get(field)
    if value is not None:
        return value
    cut = re.search(rf'["\']{re.escape(field)}["\']\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}}"]+)', reply)
    return cut[1].strip("\"'") if cut is not None else reply


@lru_cache(maxsize=65536)
def _fields(reply: str) -> dict[str, str]:
    """Return the fields of the last JSON object in a reply, as texts, without those that are objects themselves.

    The result is empty if the reply has no JSON object.
    """
    objects = json_objects(reply)
    if not objects:
        return {}
    fields = {name: value for name, value in objects[-1].items() if not isinstance(value, dict)}
    return {str(name): "" if value is None else as_text(value) for name, value in fields.items()}


def json_objects(text: str) -> list[dict[Any, Any]]:
    """Return the JSON objects in a text. If any are in fenced blocks of Markdown, only those are returned."""
    if "{" not in text:
        return []
    fenced = _FENCE.findall(text)
    found = [value for part in fenced for value in _decoded(part)]
    return found or list(_decoded(text))


def _decoded(text: str) -> Iterator[dict[Any, Any]]:
    decoder = json.JSONDecoder(strict=False)
    place = 0
    while opening := _OPENING.search(text, place):
        value: Any = None
        end = opening.end()
        try:
            value, end = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            value = _literal(text[opening.start() :])
            end = len(text) if isinstance(value, dict) else end
        if isinstance(value, dict):
            yield value
        place = end


def _literal(text: str) -> Any:
    """Return the dictionary in Python's notation with which a text begins; None if it begins with something else."""
    closing = text.rfind("}")
    if not text.startswith("{'") or closing < 0 or closing > LONGEST_LITERAL:
        return None
    try:
        return ast.literal_eval(text[: closing + 1])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
