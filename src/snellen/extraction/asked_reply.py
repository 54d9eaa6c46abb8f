"""A reply to an open question together with the question."""

from __future__ import annotations


class AskedReply(str):
    """A reply that carries its question, as scoring passes it to metrics. It is equal to its text."""

    __slots__ = ("question", "verdict")
    question: str
    verdict: float | None
    """How right the file of predictions says that the reply is, from 0 to 1; None if it does not say."""

    def __new__(cls, reply: str, question: str, verdict: float | None = None) -> AskedReply:
        """Create a reply from its text, its question and the verdict that a file has on it."""
        asked = super().__new__(cls, reply)
        asked.question = question
        asked.verdict = verdict
        return asked


def question_of(reply: str) -> str:
    """Return the question of a reply, or an empty text if the reply is a plain string."""
    return reply.question if isinstance(reply, AskedReply) else ""


def verdict_of(reply: str) -> float | None:
    """Return how right a file of predictions says that a reply is, from 0 to 1; None for a reply without a verdict."""
    return reply.verdict if isinstance(reply, AskedReply) else None
