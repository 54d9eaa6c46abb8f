"""How other harnesses read replies to questions with options, written from their documented behaviour.

They serve to tell how a file's verdicts were made, never to score. None stands for a reply in which a rule finds no
option; what a harness then does (draw one, ask a model, count it as wrong) is not part of the rule.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

Rule = Callable[[str, Sequence[str], Sequence[str]], int | None]
"""(reply, options, labels) -> index of the option that the rule reads, or None."""

_VLMEVALKIT_MARKS = ".()[],:;!*#{}"
_VLMEVALKIT_BLANKS = str.maketrans(_VLMEVALKIT_MARKS, " " * len(_VLMEVALKIT_MARKS))
_VLMEVALKIT_REFUSALS = (
    "Failed to obtain answer via API",
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_ANSWER_IS = re.compile(r"(?:correct\s+)?answer\s+is\s+\**([A-D])\**", re.IGNORECASE)


def vlmevalkit(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by VLMEvalKit's exact matching: one label among the last words, `answer is X`, or one option's text.

    A label counts if it is the only one in the reply and its first occurrence is among the last four words. A text
    counts if it is the only option in the reply, and the reply is at most twice as long as all options.
    """
    if any(refusal in reply for refusal in _VLMEVALKIT_REFUSALS):
        return None
    reply_words = reply.translate(_VLMEVALKIT_BLANKS).split()
    stated_labels = [label for label in labels if label in reply_words]
    if not stated_labels and "Z" in reply_words:
        return None  # the label of an option that the harness adds for no answer
    if len(stated_labels) == 1:
        [label] = stated_labels
        is_among_last_words = reply_words.index(label) >= len(reply_words) - 4
        if is_among_last_words:
            return list(labels).index(label)

    statement = _ANSWER_IS.search(reply)
    if statement and statement[1].upper() in labels:
        return list(labels).index(statement[1].upper())

    lowered_reply = reply.lower()
    length_of_options = sum(len(option) for option in options)
    if len(lowered_reply) > 2 * length_of_options:
        return None
    matches = [index for index, option in enumerate(options) if option.lower() in lowered_reply]
    return matches[0] if len(matches) == 1 else None


def mmmu(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by MMMU's evaluation, which lmms-eval's task `mmmu` uses: `(A)`, else `A `, else `A.`, else an option's text.

    If several match, the last one in the reply counts. Texts are only searched in replies of more than five words.
    """
    text = reply
    for mark in ",.!?;:'":
        text = text.strip(mark)
    text = f" {text} "
    for form in ("({})", "{} ", "{}."):
        present = [index for index, label in enumerate(labels) if form.format(label) in text]
        if not present:
            continue
        # Once a form has matched, labels without parentheses are located as words of their own.
        located_form = form if form == "({})" else " {} "
        last_positions = {}
        for index in present:
            last_positions[index] = text.rfind(located_form.format(labels[index]))
        return max(last_positions, key=last_positions.__getitem__)

    if len(text.split()) <= 5:
        return None
    lowered_text = text.lower()
    positions_of_options = {}
    for index, option in enumerate(options):
        position = lowered_text.rfind(option.lower())
        if position >= 0:
            positions_of_options[index] = position
    if not positions_of_options:
        return None
    return max(positions_of_options, key=positions_of_options.__getitem__)


def scienceqa(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read as lmms-eval's task `scienceqa` does: the whole reply is a label, or begins with one and a full stop.

    A label that is the whole reply may be a small letter.
    """
    text = reply.strip()
    if text.upper() in labels:
        return list(labels).index(text.upper())
    if len(text) >= 2 and text[1] == "." and text[0] in labels:
        return list(labels).index(text[0])
    return None


_LMMS_EVAL_PHRASES = (
    *("the answer is", "answer is", "the correct answer is", "correct answer is"),
    *("the best answer is", "best answer is", "the correct option is", "correct option is"),
    *("the best option is", "best option is", "the choice is", "choice is"),
    *("the correct choice is", "correct choice is", "i choose", "i select", "i pick"),
    *("my answer is", "my choice is", "옵션", "정답은", "답은", "답:"),
    *("答案是", "答案为", "选", "答えは"),
)
"""Phrases after which any letter that is a label counts, even within a word."""
_LMMS_EVAL_FORMS = ("({})", "{}.", "{}:", "{})", "{} ")
"""Below a label at an end of the reply and behind a phrase, the surest first."""


def lmms_eval(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by the letters that many tasks of lmms-eval share (MMBench, MMStar, RealWorldQA, Video-MME ...).

    A label that begins the reply counts before one that ends it, then one after a phrase such as `the answer is`,
    then `(A)`, `A.`, `A:`, `A)` and `A `, at any position, also within words. If several match, the last one counts.
    Otherwise, a capital letter within a word counts.
    """
    if not labels:
        return None
    text = reply.strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    stripped = text.strip()
    if not stripped:
        return None
    for index, label in enumerate(labels):
        if _begins_with(stripped, label):
            return index
    reversed_text = stripped[::-1]
    for index, label in enumerate(labels):
        if _begins_with(reversed_text, label):
            return index

    padded = f" {text} "
    lowered = padded.lower()
    stated: dict[int, int] = {}
    """Position of each label after a phrase."""
    for phrase in _LMMS_EVAL_PHRASES:
        if phrase not in lowered:
            continue
        end_of_phrase = lowered.find(phrase) + len(phrase)
        for index, label in enumerate(labels):
            position = padded.find(label, end_of_phrase)
            if position >= 0:
                stated[index] = max(position, stated.get(index, 0))
    if stated:
        return max(stated, key=stated.__getitem__)

    for form in (*_LMMS_EVAL_FORMS, "{}"):
        last_positions = {}
        for index, label in enumerate(labels):
            last_positions[index] = padded.rfind(form.format(label))
        if max(last_positions.values()) >= 0:
            return max(last_positions, key=last_positions.__getitem__)
    return None


def _begins_with(text: str, label: str) -> bool:
    return text.startswith(label) and not text[len(label) : len(label) + 1].isalpha()


_EVALSCOPE_MARK = re.compile(r"ANSWER\s*:\s*\**\s*", re.IGNORECASE)
_EVALSCOPE_STATED = (
    re.compile(r"[(\[（【]\s*([A-Za-z\d](?:\s*[,，]\s*[A-Za-z\d])*)\s*[)\]）】]"),
    re.compile(r"([A-Za-z\d][A-Za-z\d ,]*)"),
)
"""Labels after `ANSWER:`: in brackets, or plain."""


def evalscope(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read a reply by the line `ANSWER: X` that evalscope asks for. Of several, the last one with a label counts.

    Several labels in it (`ANSWER: A, B`) name no option. Without such a line, the last capital
    letter of the reply counts.
    """
    marks = list(_EVALSCOPE_MARK.finditer(reply))
    for mark in reversed(marks):
        for pattern in _EVALSCOPE_STATED:
            match = pattern.match(reply, mark.end())
            if match is None:
                continue
            label = _leading_labels(match[1], labels)
            if label:
                return _index_or_none(labels, label)
    capitals = [character for character in reply if character.isupper()]
    if not capitals:
        return None
    return _index_or_none(labels, capitals[-1])


def _leading_labels(text: str, labels: Sequence[str]) -> str:
    """Return the beginning of a text, up to the first word that contains anything other than labels."""
    end = 0
    for word in re.finditer(r"[A-Za-z\d]+", text):
        if not set(word[0]) <= set(labels):
            break
        end = word.end()
    return text[:end]


_LM_EVAL_LETTER = re.compile(r"\(([A-Z])\)")


def lm_eval(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read a reply by lm-eval's filter `multi_choice_regex`, as its generative tasks (BBH, MMLU, GPQA) set it.

    The last letter in parentheses counts. Without one, the last text of an option counts, ignoring
    capitals and punctuation. Without that, the last label after a colon counts.
    """
    letters = _LM_EVAL_LETTER.findall(reply)
    if letters:
        return _index_or_none(labels, letters[-1])

    texts = [_without_punctuation(option.strip()) for option in options]
    any_option = "|".join(re.escape(text) for text in texts)
    stated_texts = re.findall(any_option, _without_punctuation(reply))
    if stated_texts and stated_texts[-1].strip():
        # If several options have this text, the last one counts.
        last_text = stated_texts[-1].strip()
        indices = [index for index, text in enumerate(texts) if text == last_text]
        return indices[-1] if indices else None

    if not labels:
        return None
    any_label = "|".join(re.escape(label) for label in labels)
    labels_after_colon = re.findall(rf":\s*({any_label})", reply)
    if not labels_after_colon:
        return None
    return _index_or_none(labels, labels_after_colon[-1])


def _index_or_none(labels: Sequence[str], label: str) -> int | None:
    """Return the index of a label; None if it is not one of the labels."""
    return list(labels).index(label) if label in labels else None


def _without_punctuation(text: str) -> str:
    kept = (character for character in text.lower() if unicodedata.category(character)[0] != "P")
    return "".join(kept)


RULES: Mapping[str, Rule] = {
    "vlmevalkit": vlmevalkit,
    "mmmu": mmmu,
    "scienceqa": scienceqa,
    "lmms-eval": lmms_eval,
    "evalscope": evalscope,
    "lm-eval": lm_eval,
}
"""The rules by the names of their harnesses; `mmmu` and `scienceqa` are tasks of lmms-eval."""
