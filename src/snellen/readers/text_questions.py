"""Types of questions about captions, texts in images, fields of documents, annotated open
questions, and which objects are in an image and how many.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from snellen.common.drafts import (
    NO_WORD,
    AnnotatedImage,
    AnnotatedObject,
    Exclusion,
    OpenQuestion,
    Outline,
    QuestionDraft,
    answer_pools,
    has_word,
)
from snellen.readers.object_presence import NegativeRule, ranked_negatives
from snellen.readers.question_types import (
    AnnotatedSource,
    Formed,
    FormedQuestion,
    Pool,
    QuestionType,
    choice_question,
    draw_at_most,
    names_in,
    phrased,
    plural,
)
from snellen.recognition.folding import whole_number
from snellen.records import Box
from snellen.reformulation.answer_equality import fold_answer, opposite_yes_no, same_answer

MAX_NUMBER_OPTIONS = 12
"""Largest number of options that a question about a number can have."""
Ranking = Callable[[str], list[str]]


class PresenceQuestions(QuestionType, frozen=True):
    """Is there a dog in the image? For each image, yes and no are correct equally often."""

    needs = "names of objects"
    made_of = "objects"
    ask: str = "Is there a {name} in the picture?"
    negatives: Literal["even", NegativeRule] = "even"
    """Which absent object is asked about.

    `even`: each name as often as images show such an object, so that the name does not give the
    answer away. The others are the rules of POPE (Li et al. 2023).
    """

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions whether an image shows an object: as many with the answer yes as with the answer no."""
        present = frozenset(names_in(picture))
        if not picture.is_exhaustive and not picture.absent:
            yield Exclusion("it is not said which names are missing in the picture")
            return
        may_be_absent = frozenset(picture.absent or source.names) - present
        rng = source.rng("presence", picture.id)
        for name in draw_at_most(names_in(picture), self.most, rng):
            negative = self._draw_absent_name(name, may_be_absent, source, rng)
            if not negative:
                yield Exclusion("every name that could be missing is in the picture")
                return
            may_be_absent -= {negative}
            yield self._presence_question(name, "yes")
            yield self._presence_question(negative, "no")

    def _draw_absent_name(
        self, name: str, absent: frozenset[str], source: AnnotatedSource, rng: random.Random
    ) -> str:
        """Return the name of an absent object to ask about.

        The setting `negatives` decides: `even` draws a name with a probability that grows with the number of its objects
        in all images; `popular` takes the most frequent name, and `adversarial` the name that most often occurs together
        with `name`. With `random`, or if such a name is not found, each name is equally likely.

        Args:
            name: The name of an object that is in the image.
            absent: The names to choose from.
            source: All images, for the frequencies of names.
            rng: Source of randomness.

        Returns:
            The name; "" if there are no names to choose from.
        """
        if not absent:
            return ""
        if self.negatives == "even":
            for _ in range(100):
                drawn_name = rng.choice(source.occurrences)
                if drawn_name in absent:
                    return drawn_name
        elif self.negatives != "random":
            make_ranking = _rank_by_co_occurrence
            if self.negatives == "popular":
                make_ranking = _rank_by_frequency
            ranked_names = source.once(make_ranking)
            for candidate in ranked_names(name):
                if candidate in absent:
                    return candidate
        return rng.choice(sorted(absent))

    def _presence_question(self, name: str, answer: str) -> FormedQuestion:
        """Return the yes-no question whether an object is in the image."""
        return FormedQuestion(
            name, (choice_question(phrased(self.ask, name=name), (answer,), closed=True),), answer
        )


def _rank_by_frequency(source: AnnotatedSource) -> Ranking:
    """Return POPE's ranking of names by how many images show such an object."""
    return ranked_negatives([names_in(picture) for picture in source.pictures], "popular")


def _rank_by_co_occurrence(source: AnnotatedSource) -> Ranking:
    """Return POPE's ranking of names by how often they occur together with a given one."""
    return ranked_negatives([names_in(picture) for picture in source.pictures], "adversarial")


class CountQuestions(QuestionType, frozen=True):
    """How many dogs are in the image? The wrong options are numbers near the correct one."""

    needs = "objects, all of a name"
    made_of = "objects"
    ask: str = "How many {names} are in the picture?"
    largest: int = 10
    """Objects are not asked about if there are more of them than this."""

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions how many objects of a kind an image shows. The wrong options are numbers nearby."""
        crowds = {thing.name for thing in picture.objects if thing.is_crowd}
        askable = []
        for name, number in Counter(thing.name for thing in picture.objects).items():
            if name in crowds:
                yield Exclusion("a crowd that was not counted")
            elif name in picture.incomplete:
                yield Exclusion("not all objects of the name are marked")
            elif number > self.largest:
                yield Exclusion(f"more than {self.largest} of a kind")
            else:
                askable.append((name, number))
        rng = source.rng("count", picture.id)
        for name, number in draw_at_most(askable, self.most, rng):
            text = phrased(self.ask, names=plural(name), name=name)
            question = choice_question(
                text, (str(number),), *numbers_nearby(number, rng), closed=True
            )
            yield FormedQuestion(name, (question,), str(number))


def numbers_nearby(number: int, rng: random.Random, least: int = 0) -> list[tuple[str, ...]]:
    """Return wrong numbers near a correct one, as distractors in the order in which they are used.

    However many of them are used, they and the correct number are consecutive. The correct one is as likely to be the
    smallest as any other, so that its rank does not give it away.

    Args:
        number: The correct number.
        rng: Draws how many of the numbers are smaller.
        least: No number is smaller than this one.

    Returns:
        The numbers as texts, each in a tuple of its own.
    """
    distractors: list[tuple[str, ...]] = []
    share_below = rng.random()
    smallest = number
    largest = number
    for count in range(2, MAX_NUMBER_OPTIONS + 1):  # how many numbers there are with the next one
        is_below = int(share_below * count) > int(share_below * (count - 1))
        if is_below and smallest > least:
            smallest -= 1
            distractors.append((str(smallest),))
        else:
            largest += 1
            distractors.append((str(largest),))
    return distractors


class ObjectClassQuestions(QuestionType, frozen=True):
    """What is in the red box? Wrong options are names of objects that the image does not show;
    those of the same kind, such as animals, come first.
    """

    needs = "objects with boxes"
    ask: str = ""
    show: Literal["box", "crop"] = "box"
    """Whether the box is drawn on the image, or cut out of it."""
    smallest: float = 24
    """Pixels that a box has at least in width and height."""

    def fits(self, picture: AnnotatedImage) -> bool:
        return any(thing.box for thing in picture.objects)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions what an object is. The image shows the object in a red box, or is cropped to it."""
        askable = []
        for index, annotated in enumerate(picture.objects):
            if annotated.box is None:
                continue
            reason = self._unclear_box_reason(annotated, annotated.box, picture)
            if reason:
                yield Exclusion(reason)
            else:
                askable.append((index, annotated, annotated.box))

        is_boxed = self.show == "box"
        default_wording = "What does the picture show?"
        if is_boxed:
            default_wording = "What is the object in the red box?"
        rng = source.rng("object-class", picture.id)
        for index, annotated, box in draw_at_most(askable, self.most, rng):
            other_names = [name for name in names_in(picture) if name != annotated.name]
            tiers = [source.names]
            if annotated.kind:
                tiers.insert(0, source.names_by_kind[annotated.kind])
            question = choice_question(
                self.ask or default_wording, (annotated.name,), *tiers, also_right=other_names
            )
            outlines = (Outline(box, width=3),) if is_boxed else ()
            crop = None if is_boxed else box
            yield FormedQuestion(str(index), (question,), annotated.name, outlines, crop)

    def _unclear_box_reason(
        self, annotated: AnnotatedObject, box: Box, picture: AnnotatedImage
    ) -> str:
        """Return why the box of an object does not clearly show it alone; empty if it does."""
        if annotated.is_crowd:
            return "a crowd in the box"
        _, _, width, height = box
        if min(width, height) < self.smallest:
            return f"the box is smaller than {self.smallest:g} pixels"
        for rival in picture.objects:
            if rival.box is None or rival.name == annotated.name:
                continue
            if shared_area(box, rival.box) > 0.5:
                return "another object fills much the same box"
        return ""


def shared_area(first: Box, second: Box) -> float:
    """Return the intersection over union of two boxes: the area that both share divided by the area of both together.

    Args:
        first: Left, top, width and height of a box.
        second: The same of another box.
    """
    first_left, first_top, first_width, first_height = first
    second_left, second_top, second_width, second_height = second
    shared_left = max(first_left, second_left)
    shared_right = min(first_left + first_width, second_left + second_width)
    shared_top = max(first_top, second_top)
    shared_bottom = min(first_top + first_height, second_top + second_height)
    intersection = max(shared_right - shared_left, 0) * max(shared_bottom - shared_top, 0)
    union = first_width * first_height + second_width * second_height - intersection
    return intersection / union


COLOURS = frozenset(
    "black white grey gray red green blue yellow orange brown purple pink gold silver beige tan".split()
)


class CaptionQuestions(QuestionType, frozen=True):
    """Which caption fits the image? Captions of other images are candidates."""

    needs = "captions"
    ask: str = "Which caption fits the picture?"

    def fits(self, picture: AnnotatedImage) -> bool:
        return bool(picture.captions)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        first, *others = picture.captions
        yield FormedQuestion(
            "", (choice_question(self.ask, (first,), source.captions, also_right=others),)
        )


class MatchQuestions(QuestionType, frozen=True):
    """Does the caption fit the image?

    Each caption is asked about twice, with its own image and with another one, so that the text
    alone does not give the answer away.
    """

    needs = "captions"
    made_of = "captions"
    ask: str = 'Does this caption fit the picture? "{caption}"'

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield two questions whether a caption fits the image: with its own caption (yes), and with that of another image (no)."""
        other = source.once(_caption_of_another_image)[picture.id]
        if any(same_answer(other, caption) for caption in picture.captions):
            yield Exclusion("another image has the same caption")
            return
        for caption, answer in ((picture.captions[0], "yes"), (other, "no")):
            question = choice_question(phrased(self.ask, caption=caption), (answer,), closed=True)
            yield FormedQuestion(answer, (question,), answer)


def _caption_of_another_image(source: AnnotatedSource) -> Mapping[str, str]:
    """Return for each image with captions the first caption of another image.

    The images are put in a random order, and each gets the caption of the next one, so that each caption is used once.
    """
    pictures = [picture for picture in source.pictures if picture.captions]
    source.rng("match").shuffle(pictures)
    captions: dict[str, str] = {}
    for index, picture in enumerate(pictures):
        next_picture = pictures[(index + 1) % len(pictures)]
        captions[picture.id] = next_picture.captions[0]
    return captions


class AnswerQuestions(QuestionType, frozen=True):
    """An open question turned into multiple choice.

    The wrong options are answers of the same kind to other questions; those to questions with the
    same first words come first.
    """

    needs = "questions with answers"
    made_of = "questions"

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield the annotated open questions about an image as multiple-choice questions."""
        askable = []
        for place, question in enumerate(picture.questions):
            if question.answers and has_word(question.answers[0]):
                askable.append((place, question))
            else:
                yield Exclusion(NO_WORD if question.answers else "no answer")
        rng = source.rng("answer", picture.id)
        for place, question in draw_at_most(askable, self.most, rng):
            yield FormedQuestion(
                str(place), (reformed_question(question, source, rng),), answer_kind(question)
            )


class DialogueQuestions(QuestionType, frozen=True):
    """All questions about an image as the rounds of one dialogue."""

    needs = "two questions with answers, or more"
    most: int = 10
    """Maximum number of rounds. If there are more questions, the first ones are asked."""

    def fits(self, picture: AnnotatedImage) -> bool:
        return len(picture.questions) > 1

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield a dialogue of the annotated open questions about an image, as multiple-choice questions."""
        askable = [
            question
            for question in picture.questions
            if question.answers and has_word(question.answers[0])
        ]
        askable = askable[: self.most or None]
        if len(askable) < 2:
            yield Exclusion("fewer than two questions with an answer")
            return
        rng = source.rng("dialogue", picture.id)
        rounds = [reformed_question(question, source, rng) for question in askable]
        yield FormedQuestion("", tuple(rounds), is_dialogue=True)


def reformed_question(
    question: OpenQuestion, source: AnnotatedSource, rng: random.Random
) -> QuestionDraft:
    """Return an open question as multiple choice.

    The wrong options are of the same kind as the answer: numbers near a number, no for yes, and
    otherwise answers to other questions, first to those that begin with the same two words.
    """
    kind = answer_kind(question)
    number = whole_number(fold_answer(question.answers[0]))
    if not question.kind and kind == "number" and number is not None:
        near = numbers_nearby(number, rng)
        return choice_question(question.question, question.answers, *near, closed=True)
    if kind == "yes/no":
        return choice_question(question.question, question.answers, closed=True)
    pools = source.once(_pool_answers)
    return choice_question(
        question.question,
        question.answers,
        pools[kind, _first_two_words(question)],
        pools[kind, ""],
    )


def answer_kind(question: OpenQuestion) -> str:
    """Return the kind of a question's answer, by which wrong options are chosen.

    It is `yes/no`, the kind that the source gives, `number`, `colour` or `other`.
    """
    answer = fold_answer(question.answers[0])
    if opposite_yes_no(answer):
        return "yes/no"
    if question.kind:
        return question.kind
    if answer.isdecimal():
        return "number"
    return "colour" if COLOURS.issuperset(answer.replace(" and ", " ").split()) else "other"


def _first_two_words(question: OpenQuestion) -> str:
    """Return the first two words of a question, by which similar questions are found."""
    return " ".join(re.findall(r"\w+", question.question.casefold())[:2]) or "?"


def _pool_answers(source: AnnotatedSource) -> Mapping[tuple[str, str], Pool]:
    """Return the answers to all questions in pools from which distractors are drawn.

    The key of a pool is the kind of a question (such as a number) and its first two words. A pool with empty words has
    the answers to all questions of its kind.
    """

    def keys_with_answers() -> Iterator[tuple[tuple[str, str], str]]:
        """Yield each answer twice: for the pool of its kind and first two words, and for the pool of its kind."""
        for picture in source.pictures:
            for question in picture.questions:
                if not question.answers or not has_word(question.answers[0]):
                    continue
                kind = answer_kind(question)
                yield (kind, _first_two_words(question)), question.answers[0]
                yield (kind, ""), question.answers[0]

    return answer_pools(keys_with_answers())


class TextQuestions(QuestionType, frozen=True):
    """What is written in the red box?

    The wrong options are other texts in the same image, then texts in any image.
    """

    needs = "texts in images"
    ask: str = ""
    open: bool = False
    """Whether the model must write the text, instead of choosing it from options."""
    smallest: float = 12
    """Pixels that a box has at least in width and height."""

    def fits(self, picture: AnnotatedImage) -> bool:
        return bool(picture.texts)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions what is written in an image. If it has several texts, a red box shows which one is meant."""
        formed = []
        for index, line in enumerate(picture.texts):
            if not has_word(line.text):
                yield Exclusion(NO_WORD)
            elif line.box is None and len(picture.texts) > 1:
                yield Exclusion("several texts without boxes, so that none says which is meant")
            elif line.box is not None and min(line.box[2:]) < self.smallest:
                yield Exclusion(f"the box is smaller than {self.smallest:g} pixels")
            else:
                # Wrong options are texts of the same image, if a box shows which one is meant, and then of all images.
                if line.box:
                    default_text = "What is written in the red box?"
                    texts_of_image = tuple(other.text for other in picture.texts)
                    candidates = [texts_of_image, source.texts]
                    outlines: tuple[Outline, ...] = (Outline(line.box, width=3),)
                else:
                    default_text = "What is written in the picture?"
                    candidates = [source.texts]
                    outlines = ()
                question = choice_question(self.ask or default_text, (line.text,), *candidates)
                if self.open:
                    question = QuestionDraft(question.question, texts=question.texts)
                formed.append(FormedQuestion(str(index), (question,), outlines=outlines))
        yield from draw_at_most(formed, self.most, source.rng("text", picture.id))


class KeyQuestions(QuestionType, frozen=True):
    """What is the total on the receipt?

    The wrong options are values of the same key, such as `total`, in other images.
    """

    needs = "entries by key"
    ask: str = "What is the {key}?"
    of: str = ""
    """The only key that is asked about; all keys if empty."""
    open: bool = False
    """Whether the model must write the value, instead of choosing it from options."""

    def fits(self, picture: AnnotatedImage) -> bool:
        return any(self.of in ("", key) for key in picture.fields)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions about the fields of a document, such as the total of a receipt, open or with options."""
        formed = []
        for key, values in picture.fields.items():
            if self.of not in ("", key):
                continue
            if not values or not has_word(values[0]):
                yield Exclusion(NO_WORD if values else "no value")
                continue
            text = phrased(self.ask, key=key.replace("_", " "))
            if self.open:
                question = QuestionDraft(text, texts=values)
            else:
                question = choice_question(text, values, source.fields[key])
            formed.append(FormedQuestion(key, (question,), key))
        yield from draw_at_most(formed, self.most, source.rng("key", picture.id))
