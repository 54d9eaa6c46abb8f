"""Questions about text in pictures; presentations alternate between rewordings, as in the published data."""

from __future__ import annotations

from snellen.drafts import QuestionDraft

READING = (
    "Which text does the picture show?",
    "What word or words can be read in the image?",
    "What does the writing in this picture say?",
    "Which letters, digits and words are seen here?",
    "What is the text in the image?",
    "How does the writing in this picture read?",
)
READING_IN_BOX = (
    "Which text stands inside the red box?",
    "What word or words can be read within the red box?",
    "What does the writing in the red box say?",
    "Which letters, digits and words does the red box enclose?",
    "What is the text in the region that is marked in red?",
    "How does the writing within the red rectangle read?",
)


def reading_question(text: str, *, boxed: bool = False) -> QuestionDraft:
    """The question asking for the text in the picture, or in its red box."""
    question, *rewordings = READING_IN_BOX if boxed else READING
    return QuestionDraft(question, texts=(text,), rewordings=tuple(rewordings))
