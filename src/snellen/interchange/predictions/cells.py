"""Read single cells of a table of predictions: replies, conversations, likelihoods, settings and texts."""

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
    """Return the single value of a list with one item; the list if it has more; any other cell as it is.

    A text that spells a list (`["a cat"]`) counts as one.
    """
    values = listed(cell) if isinstance(cell, str) and cell.strip().startswith("[") else cell
    if not isinstance(values, list):
        return cell
    return values[0] if len(values) == 1 else values


def first_column(roles: Roles, role: str) -> str:
    """Return the first column that has a role, such as `answer`; empty if none has it."""
    return next(iter(roles.get(role, ())), "")


class Asked:
    """What a row asked: its question, and all that the model was shown (the prompt), if the file has it.

    If the row is a conversation, `replies` has the last message of the model.
    """

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
"""Number of characters. A reply may begin with the words of a shorter prompt without being a copy of it."""


def without_prompt(reply: str, asked: Asked) -> str:
    """Return a reply without the prompt with which it begins, because Hugging Face's `generate` repeats it.

    Up to 40 characters, such as a mark for the user's turn, may come before the prompt. A prompt of
    fewer than 40 characters is not removed, because a reply may begin with the same words by
    itself.
    """
    prompt = (asked.prompt or asked.question).strip()
    if len(prompt) < LONG_PROMPT:
        return reply
    start = reply.find(prompt)
    if not 0 <= start <= LONG_PROMPT:
        return reply
    return reply[start + len(prompt) :]


def _turns(messages: Sequence[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts that the user and the model wrote in a conversation, as two tuples in order.

    Messages without a role are taken to alternate, beginning with the user.
    """
    user: list[str] = []
    assistant: list[str] = []
    for number, message in enumerate(messages):
        if isinstance(message, str):  # user and model take turns
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
    """Return the replies in a cell; an empty tuple if there are none.

    A cell may be a text, a list of texts (several replies to one question), the completions that a
    service returned, or a conversation, whose last message by the model is the reply.
    """
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
    """Return a cell as text. A list with exactly one value counts as this value.

    The text is empty for a missing cell, an object, an image, and any other list.
    """
    value = only_value(cell)
    if value is None or isinstance(value, (list, dict, bytes)) or hasattr(value, "read"):
        return ""
    return as_text(value).strip()


_DECODING = ("temperature", "top_p", "max_tokens", "max_new_tokens", "num_beams", "seed")


def count_in_cell(cell: Any) -> int | None:
    """Return the whole number from 0 that a cell holds, as text or as number; None if it holds anything else."""
    return whole_number(without_fraction(text_in_cell(cell)))


def likelihood_in_cell(cell: Any) -> tuple[int | None, tuple[float, ...]]:
    """Return what a cell says about the likelihood of the options.

    It is the index of the most likely option (for a whole number), or a log-likelihood for each
    option (for a list of pairs). lmms-eval has pairs of loss and flag, and lm-eval pairs of
    log-likelihood and flag.

    Returns:
        The index and the log-likelihoods. The first is None and the second empty if the cell does
        not have them, as for a reply in words.
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
    """Return the names of a row's images, with spaces between them; empty if the cells are the images themselves."""
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
    """Return an id without `.0` at its end: `5` for `5.0`.

    pandas writes whole numbers like this if a cell of their column is empty.
    """
    whole = index.removesuffix(".0")
    return whole if whole.isdecimal() else index


def place_of(row: SourceRow) -> str:
    """Return where in its file a row is, for messages: `record 3` or `line 4`."""
    _, _, position = row.where.rpartition(": ")
    return f"line {row.number}" if position == row.where else position
