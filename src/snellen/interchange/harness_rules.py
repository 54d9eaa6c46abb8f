"""How other harnesses read replies to questions with options, written from their documented behaviour.

They serve to tell how a file's verdicts were made, never to score. None stands for a reply in which a rule finds no
option; what a harness then does (draw one, ask a model, count it as wrong) is not part of the rule.
"""

from __future__ import annotations

import re
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
    words = reply.translate(_VLMEVALKIT_BLANKS).split()
    present = [place for place, label in enumerate(labels) if label in words]
    if len(present) == 1 and words.index(labels[present[0]]) > len(words) - 5:
        return present[0]
    stated = _ANSWER_IS.search(reply)
    if stated and stated[1].upper() in labels:
        return list(labels).index(stated[1].upper())
    lowered = reply.lower()
    if len(lowered) > 2 * sum(map(len, options)):
        return None
    texts = [place for place, option in enumerate(options) if option.lower() in lowered]
    return texts[0] if len(texts) == 1 else None


def mmmu(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by MMMU's evaluation, which lmms-eval's task `mmmu` uses: `(A)`, else `A `, else `A.`, else an option's text.

    Of several the last in the reply counts. Texts are looked for in replies of more than five words.
    """
    text = reply
    for mark in ",.!?;:'":
        text = text.strip(mark)
    text = f" {text} "
    for form in ("({})", "{} ", "{}."):
        present = [place for place, label in enumerate(labels) if form.format(label) in text]
        if present:
            mark = form if form == "({})" else " {} "
            return max(present, key=lambda place: text.rfind(mark.format(labels[place])))
    if len(text.split()) <= 5:
        return None
    lowered = text.lower()
    texts = [place for place, option in enumerate(options) if option.lower() in lowered]
    if not texts:
        return None
    return max(texts, key=lambda place: lowered.rfind(options[place].lower()))


def first_letter(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read as lmms-eval's task `scienceqa` does: the whole reply is a label, or begins with one and a full stop."""
    text = reply.strip()
    if text in labels:
        return list(labels).index(text)
    if len(text) >= 2 and text[1] == "." and text[0] in labels:
        return list(labels).index(text[0])
    return None


_ANSWER_LINE = re.compile(r"^\s*ANSWER\s*:\s*\W{0,3}([A-Za-z])\b", re.IGNORECASE | re.MULTILINE)
_ANSWER_ANYWHERE = re.compile(r"ANSWER\s*:\s*\W{0,3}([A-Za-z])\b", re.IGNORECASE)


def evalscope(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by the line `ANSWER: X` that evalscope and Inspect ask for; the last one counts."""
    found = list(_ANSWER_LINE.finditer(reply)) or list(_ANSWER_ANYWHERE.finditer(reply))
    letter = found[-1][1].upper() if found else ""
    return list(labels).index(letter) if letter in labels else None


_LM_EVAL_LETTER = re.compile(r"(?:answer is\s*)?\(([A-Z])\)")


def lm_eval(reply: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Read by lm-eval's filter of generated choices: the first letter in parentheses, else the whole reply."""
    found = _LM_EVAL_LETTER.search(reply)
    letter = found[1] if found else reply.strip()
    return list(labels).index(letter) if letter in labels else None


RULES: Mapping[str, Rule] = {
    "vlmevalkit": vlmevalkit,
    "mmmu": mmmu,
    "lmms-eval": first_letter,
    "evalscope": evalscope,
    "lm-eval": lm_eval,
}
"""The rules by the names of their harnesses."""
