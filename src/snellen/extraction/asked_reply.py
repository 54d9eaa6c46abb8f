"""A reply to an open question, with the question."""

from __future__ import annotations


class AskedReply(str):
    """A reply that knows what was asked, as scoring hands it to metrics."""

    __slots__ = ("question",)
    question: str

    def __new__(cls, reply: str, question: str) -> AskedReply:
        """Make a reply of a text and its question."""
        asked = super().__new__(cls, reply)
        asked.question = question
        return asked


def question_of(reply: str) -> str:
    """Return what was asked, or an empty text if the reply does not know."""
    return reply.question if isinstance(reply, AskedReply) else ""
