"""What a cell of a table of predictions says: replies, conversations, likelihoods, verdicts, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snellen.formats.listed_cells import listed
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.rows import LONGEST_PATH
from snellen.recognition.columns import Roles
from snellen.recognition.folding import as_text, folded_name, whole_number
from snellen.recognition.tables import MESSAGES, PROMPTS


def only_value(cell: Any) -> Any:
    """The only value of a list of one, also of one that is written as a text; any other cell as it is."""
    values = listed(cell) if isinstance(cell, str) and cell.strip().startswith("[") else cell
    if not isinstance(values, list):
        return cell
    return values[0] if len(values) == 1 else values


def first_column(roles: Roles, role: str) -> str:
    """The first column of a role; empty if none has it."""
    return next(iter(roles.get(role, ())), "")


class Asked:
    """What a row asked: its question, and all that the model was shown, where the file has it."""

    def __init__(self, cells: Mapping[str, Any], roles: Roles) -> None:
        question_column = first_column(roles, "question")
        question = text_in_cell(cells.get(question_column))
        prompt = text_in_cell(cells.get(first_column(roles, "prompt")))
        is_prompt_column = folded_name(question_column.rpartition(".")[2]) in PROMPTS
        if is_prompt_column and question and not prompt:
            prompt = question
            question = ""
        self.replies: tuple[str, ...] = ()
        messages = cells.get(first_column(roles, MESSAGES))
        if isinstance(messages, list):
            user, assistant = _turns(messages)
            self.replies = assistant[-1:]
            if user and not question and not prompt:
                prompt = user[-1]
        self.question = question
        self.prompt = prompt


LONG_PROMPT = 40
"""Characters: shorter questions are repeated by replies in their own words."""


def without_prompt(reply: str, asked: Asked) -> str:
    """Return a reply without the prompt that it begins with, as Hugging Face's `generate` repeats it.

    A few marks of turns may come before the prompt. A short prompt is not removed.
    """
    prompt = (asked.prompt or asked.question).strip()
    if len(prompt) < LONG_PROMPT:
        return reply
    start = reply.find(prompt)
    if not 0 <= start <= LONG_PROMPT:
        return reply
    return reply[start + len(prompt) :]


def _turns(messages: Sequence[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the messages of the user and those of the assistant in a conversation, in order."""
    user: list[str] = []
    assistant: list[str] = []
    for number, message in enumerate(messages):
        if isinstance(message, str):  # said in turn
            (assistant if number % 2 else user).append(message)
            continue
        role = str(message.get("role") or message.get("from") or "")
        content = message.get("content", message.get("value"))
        text = "\n".join(replies_in_cell(content))
        if role in ("assistant", "gpt", "model"):
            assistant.append(text)
        elif role in ("user", "human"):
            user.append(text)
    return tuple(user), tuple(assistant)


def replies_in_cell(cell: Any) -> tuple[str, ...]:
    """Return the replies in a cell: a text, several texts, a service's completions, or the end of a conversation."""
    if cell is None:
        return ()
    if isinstance(cell, dict):
        for name in ("content", "text", "message", "answer", "response", "value"):
            if name in cell:
                return replies_in_cell(cell[name])
        return ()
    if not isinstance(cell, list):
        return (as_text(cell),)
    if not cell:
        return ()
    if isinstance(cell[0], dict):
        if "role" in cell[0] or "from" in cell[0]:
            _, assistant = _turns(cell)
            return assistant[-1:]
        if "type" in cell[0]:
            parts = [
                part.get("text", "") for part in cell if part.get("type") in ("text", "output_text")
            ]
            return ("\n".join(map(str, parts)),)
    return tuple(reply for value in cell for reply in replies_in_cell(value))


def text_in_cell(cell: Any) -> str:
    """A cell as text; empty for a missing one, an image, and a list of anything but one text."""
    value = only_value(cell)
    if value is None or isinstance(value, (list, dict, bytes)) or hasattr(value, "read"):
        return ""
    return as_text(value).strip()


_DECODING = ("temperature", "top_p", "max_tokens", "max_new_tokens", "num_beams", "seed")


def count_in_cell(cell: Any) -> int | None:
    """A number from 0 in a cell; None for anything else."""
    return whole_number(without_fraction(text_in_cell(cell)))


def likelihood_in_cell(cell: Any) -> tuple[int | None, tuple[float, ...]]:
    """The place of the most likely option in a cell, or a log-likelihood for each option; neither for a reply.

    lmms-eval keeps pairs of loss and flag, lm-eval pairs of log-likelihood and flag.
    """
    if isinstance(cell, int) and not isinstance(cell, bool):
        return cell, ()
    pairs = cell if isinstance(cell, list) else []
    scores: list[float] = []
    for pair in pairs:
        is_pair = isinstance(pair, list) and len(pair) == 2 and str(pair[1]) in ("True", "False")
        try:
            scores.append(-abs(float(pair[0] if is_pair else "")))
        except (TypeError, ValueError):
            return None, ()
    return None, tuple(scores) if len(scores) > 1 else ()


def decoding_of(cells: Mapping[str, Any]) -> str:
    """Return the settings of decoding that a row has, in a fixed order: `temperature=0.2, seed=1`."""
    cells_by_name = {}
    for column, cell in cells.items():
        cells_by_name[folded_name(column.rpartition(".")[2])] = cell
    settings = []
    for name in _DECODING:
        if name in cells_by_name:
            settings.append(f"{name}={text_in_cell(cells_by_name[name])}")
    return ", ".join(settings)


def image_names(cells: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The names of a row's images; empty where the cells hold the images themselves."""
    names: list[str] = []
    for column in columns:
        cell = cells.get(column)
        values = cell if isinstance(cell, list) else [cell]
        for value in values:
            if isinstance(value, dict):
                value = value.get("path") or value.get("url")
            text = text_in_cell(value)
            if text and len(text) <= LONGEST_PATH:
                names.append(text)
    return " ".join(names)


def without_fraction(index: str) -> str:
    """`5.0`, as pandas writes a column of whole numbers with a hole, as `5`."""
    whole = index.removesuffix(".0")
    return whole if whole.isdecimal() else index


def place_of(row: SourceRow) -> str:
    """Return where a row is within its file: what follows the name of the file, or its line."""
    _, _, position = row.where.rpartition(": ")
    return f"line {row.number}" if position == row.where else position
