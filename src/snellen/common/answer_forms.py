"""How the answer column of a table names the correct option."""

from __future__ import annotations

from typing import Literal

AnswerForm = Literal["any", "letter", "text", "index0", "index1"]
NamedForm = Literal["letter", "text", "index0", "index1"]
"""Forms that a user may choose. Without a choice, `any` applies: each answer may have any of the forms."""
FORMS: tuple[NamedForm, ...] = ("letter", "text", "index0", "index1")
ANSWER_FORM_DESCRIPTIONS = {
    "any": "letter, text or number from 0",
    "letter": "letter",
    "text": "text of an option",
    "index0": "number of an option from 0",
    "index1": "number of an option from 1",
}
