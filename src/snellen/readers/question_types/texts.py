"""Captions, open questions with their answers, texts in pictures and entries of forms."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from snellen.common.annotations import AnnotatedPicture, OpenQuestion
from snellen.common.drafts import Outline, QuestionDraft
from snellen.readers.answer_pools import answer_pools
from snellen.readers.exclusions import NO_WORD, Exclusion, has_word
from snellen.readers.question_types.declaration import (
    AnnotatedSource,
    Formed,
    FormedQuestion,
    Pool,
    QuestionType,
    choice,
    some,
)
from snellen.readers.question_types.objects import numbers_nearby
from snellen.readers.wording import phrased
from snellen.reformulation.answer_equality import fold_answer, opposite_yes_no, same_answer

COLOURS = frozenset(
    "black white grey gray red green blue yellow orange brown purple pink gold silver beige tan".split()
)


class CaptionQuestions(QuestionType, frozen=True):
    """Which caption fits the picture? Captions of other pictures are candidates."""

    needs = "captions"
    ask: str = "Which caption fits the picture?"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.captions)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        first, *others = picture.captions
        yield FormedQuestion("", (choice(self.ask, (first,), source.captions, also_right=others),))


class MatchQuestions(QuestionType, frozen=True):
    """Does the caption fit the picture? Each caption is asked about twice: of its own picture and of another one, so
    that the text says nothing of the answer."""

    needs = "captions"
    ask: str = 'Does this caption fit the picture? "{caption}"'

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.captions)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        other = source.once(_partners)[picture.id]
        if any(same_answer(other, caption) for caption in picture.captions):
            yield Exclusion("another picture has the same caption")
            return
        for caption, answer in ((picture.captions[0], "yes"), (other, "no")):
            question = choice(phrased(self.ask, caption=caption), (answer,), closed=True)
            yield FormedQuestion(answer, (question,), answer)


def _partners(source: AnnotatedSource) -> Mapping[str, str]:
    """For each picture with captions the caption of another one, each used once."""
    pictures = [picture for picture in source.pictures if picture.captions]
    source.rng("match").shuffle(pictures)
    others = [*pictures[1:], *pictures[:1]]
    return {picture.id: other.captions[0] for picture, other in zip(pictures, others, strict=True)}


class AnswerQuestions(QuestionType, frozen=True):
    """An open question with its answer as one of the options; answers of the same kind are candidates, those of
    questions that begin alike first."""

    needs = "questions with answers"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.questions)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        askable = []
        for place, asked in enumerate(picture.questions):
            if asked.answers and has_word(asked.answers[0]):
                askable.append((place, asked))
            else:
                yield Exclusion(NO_WORD if asked.answers else "no answer")
        rng = source.rng("answer", picture.id)
        for place, asked in some(askable, self.most, rng):
            yield FormedQuestion(str(place), (answered(asked, source, rng),), answer_kind(asked))


class DialogueQuestions(QuestionType, frozen=True):
    """The questions of a picture as rounds of one talk."""

    needs = "two questions with answers, or more"
    most: int = 10
    """Rounds; the first ones are asked."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return len(picture.questions) > 1

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        asked = [question for question in picture.questions if question.answers and has_word(question.answers[0])]
        asked = asked[: self.most or None]
        if len(asked) < 2:
            yield Exclusion("fewer than two questions with an answer")
            return
        rng = source.rng("dialogue", picture.id)
        rounds = [answered(question, source, rng) for question in asked]
        yield FormedQuestion("", tuple(rounds), is_dialogue=True)


def answered(asked: OpenQuestion, source: AnnotatedSource, rng: random.Random) -> QuestionDraft:
    """An open question with candidates of the kind of its answer."""
    kind, number = answer_kind(asked), fold_answer(asked.answers[0])
    if not asked.kind and kind == "number" and number.isdecimal():
        near = numbers_nearby(int(number), rng)
        return choice(asked.question, asked.answers, *near, closed=True)
    if kind == "yes/no":
        return choice(asked.question, asked.answers, closed=True)
    pools = source.once(_answer_pools)
    return choice(asked.question, asked.answers, pools[kind, _opening(asked)], pools[kind, ""])


def answer_kind(asked: OpenQuestion) -> str:
    """The kind that the source names, else what the answer is: yes/no, number, colour or other."""
    answer = fold_answer(asked.answers[0])
    if opposite_yes_no(answer):
        return "yes/no"
    if asked.kind:
        return asked.kind
    if answer.isdecimal():
        return "number"
    return "colour" if COLOURS.issuperset(answer.replace(" and ", " ").split()) else "other"


def _opening(asked: OpenQuestion) -> str:
    return " ".join(re.findall(r"\w+", asked.question.casefold())[:2]) or "?"


def _answer_pools(source: AnnotatedSource) -> Mapping[tuple[str, str], Pool]:
    """The usual answers by kind and the first words of the question, and by kind alone."""
    return answer_pools(
        ((answer_kind(asked), opening), asked.answers[0])
        for picture in source.pictures
        for asked in picture.questions
        if asked.answers and has_word(asked.answers[0])
        for opening in (_opening(asked), "")
    )


class TextQuestions(QuestionType, frozen=True):
    """What is written in the red box? Other texts of the picture are candidates first, then those of all pictures."""

    needs = "texts in pictures"
    ask: str = ""
    open: bool = False
    """Whether the text is to be read out, and not chosen."""
    smallest: float = 12
    """Pixels that a box has at least in width and height."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.texts)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        formed = []
        for place, line in enumerate(picture.texts):
            if not has_word(line.text):
                yield Exclusion(NO_WORD)
            elif line.box is None and len(picture.texts) > 1:
                yield Exclusion("several texts without boxes, so that none says which is meant")
            elif line.box is not None and min(line.box[2:]) < self.smallest:
                yield Exclusion(f"the box is smaller than {self.smallest:g} pixels")
            else:
                own = "What is written in the red box?" if line.box else "What is written in the picture?"
                beside = tuple(other.text for other in picture.texts)
                question = choice(self.ask or own, (line.text,), *([beside] if line.box else []), source.texts)
                if self.open:
                    question = QuestionDraft(question.question, texts=question.texts)
                outlines = (Outline(line.box, width=3),) if line.box else ()
                formed.append(FormedQuestion(str(place), (question,), outlines=outlines))
        yield from some(formed, self.most, source.rng("text", picture.id))


class KeyQuestions(QuestionType, frozen=True):
    """What is the total on the receipt? Values of the same key in other pictures are candidates."""

    needs = "entries by key"
    ask: str = "What is the {key}?"
    of: str = ""
    """The one key that is asked for; all of them when empty."""
    open: bool = False
    """Whether the value is to be read out, and not chosen."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return any(self.of in ("", key) for key in picture.fields)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        formed = []
        for key, values in picture.fields.items():
            if self.of not in ("", key):
                continue
            if not values or not has_word(values[0]):
                yield Exclusion(NO_WORD if values else "no value")
                continue
            text = phrased(self.ask, key=key.replace("_", " "))
            question = QuestionDraft(text, texts=values) if self.open else choice(text, values, source.fields[key])
            formed.append(FormedQuestion(key, (question,), key))
        yield from some(formed, self.most, source.rng("key", picture.id))
