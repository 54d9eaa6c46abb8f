"""Questions whose options are listed in their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from snellen.common.drafts import QuestionDraft
from snellen.errors import DataError
from snellen.formats.listed_questions import split_listed
from snellen.recognition.named_option import named_option


def with_listed_options(rounds: Iterable[QuestionDraft], where: str) -> Iterator[QuestionDraft]:
    """Yield open questions as multiple choice, with the options that their texts list.

    Raises DataError if a text does not clearly list options, or if the answer names none of them.
    """
    for draft in rounds:
        listed = split_listed(draft.question)
        if listed is None:
            raise DataError(
                f"{where}: the question does not list options on a line each, from A on; write them so, or remove "
                "`options_in_question` from the entry"
            )
        gold: tuple[int, ...] = ()
        if draft.texts:
            index = named_option(draft.texts[0], listed.options)
            if index is None:
                raise DataError(
                    f"{where}: answer {draft.texts[0]!r} names none of the options {', '.join(listed.options)}"
                )
            gold = (index,)
        yield replace(draft, question=listed.question, options=listed.options, gold=gold, texts=())
