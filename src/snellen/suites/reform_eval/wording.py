"""Questions that carry a task of their own, worded once: official files and published data ask the same."""

from __future__ import annotations

DISASTER_QUESTION = "Which disaster does the picture show?"
EXPRESSION_QUESTION = "Which phrase refers to the object in the red box?"
TEXT_QUESTION = "Which text fits the picture?"
CAPTION_QUESTION = "What does the picture show?"
CAPTION_WITH_TEXT_QUESTION = "What does the picture show, and what is written in it?"
MATCHING_OPTIONS = ("yes", "no")
"""Options of `matching_question`."""


def matching_question(text: str) -> str:
    return f'Does the caption "{text}" match the picture?'


def entailment_question(hypothesis: str) -> str:
    return f'Can it be concluded from the picture that "{hypothesis}"?'


def step_question(task: str) -> str:
    return f'The picture shows one step of the task "{task}". Which step is it?'


def claim_question(text: str) -> str:
    return f"Claim: {text}\nWhat do the text and the picture say of the claim?"


def evidence_context(text: str) -> str:
    """Return the context of a claim."""
    return f"Text evidence: {text}"


def why_question(question: str, answer: str) -> str:
    """Asks for the reason of an answer (A-OKVQAR)."""
    return f"{question} The answer is {answer}. Why?"


def explanation_context(rationale: str) -> str:
    """Return the context of a question that comes with its reason (A-OKVQRA)."""
    return f"Explanation: {rationale}"
