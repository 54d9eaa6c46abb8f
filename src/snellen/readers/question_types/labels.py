"""What a picture, or an object in it, is said to be: its class, and its attributes."""

from __future__ import annotations

from snellen.common.annotations import AnnotatedPicture
from snellen.readers.exclusions import Exclusion
from snellen.readers.question_types.declaration import (
    AnnotatedSource,
    Formed,
    FormedQuestion,
    QuestionType,
    attributes_in,
    choice,
    single_objects,
    some,
)
from snellen.readers.wording import phrased


class ClassQuestions(QuestionType, frozen=True):
    """What does the picture show? The other classes are candidates."""

    needs = "a class"
    ask: str = "What does the picture show?"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.labels)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        question = choice(self.ask, picture.labels, source.labels)
        yield FormedQuestion("", (question,), picture.labels[0])


class AttributeQuestions(QuestionType, frozen=True):
    """What is the colour of the car? Other values of the attribute are candidates."""

    needs = "attributes of pictures or objects"
    ask: str = ""
    """With {attribute} and, of an object, {name}."""
    of: str = ""
    """The one attribute that is asked for; all of them when empty."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return any(self.of in ("", attribute) for attributes in attributes_in(picture) for attribute in attributes)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        askable = [
            (attribute, value, "") for attribute, value in picture.attributes.items() if self.of in ("", attribute)
        ]
        single = single_objects(picture)
        for thing in picture.objects:
            for attribute, value in thing.attributes.items():
                if self.of in ("", attribute):
                    if thing.name in single:
                        askable.append((attribute, value, thing.name))
                    else:
                        yield Exclusion("several objects of the name, so that it does not say which is meant")
        for chosen in some(askable, self.most, source.rng("attribute", picture.id)):
            yield self._formed(*chosen, source)

    def _formed(self, attribute: str, value: str, name: str, source: AnnotatedSource) -> FormedQuestion:
        own = "What is the {attribute} of the {name}?" if name else "What is the {attribute} in the picture?"
        text = phrased(self.ask or own, attribute=attribute, name=name)
        question = choice(text, (value,), source.attributes[attribute])
        return FormedQuestion(f"{name} {attribute}".strip(), (question,), value)
