"""Which parameter of a metric's function takes the question, the reply and the ground truth."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from snellen.errors import DataError

QUESTION_NAMES = frozenset("question prompt query instruction".split())
REPLY_NAMES = frozenset(
    "reply response prediction predicted pred output completion generation generated hypothesis candidate"
    " model_answer student_answer y_pred".split()
)
SINGLE_REFERENCE_NAMES = frozenset(
    "reference ref target answer gold label truth ground_truth expected expected_answer correct_answer solution gt y_true"
    " actual".split()
)
"""Names of a parameter that takes one ground truth at a time."""
ACCEPTED_FORMS = "f(reply, reference), f(reply, references) or f(question, reply, reference)"


class MeasureParameters(Struct, frozen=True):
    """The positions of the parameters of a metric's function."""

    reply: int
    reference: int
    takes_all: bool
    """Whether the parameter of the ground truth takes all of them, as a tuple."""
    question: int | None = None

    def arguments(self, question: str, reply: str, reference: Any) -> list[Any]:
        """Return the arguments of a call, in the order of the parameters."""
        by_position = {self.reply: reply, self.reference: reference}
        if self.question is not None:
            by_position[self.question] = question
        return [by_position[position] for position in sorted(by_position)]


def measure_parameters(measure: Callable[..., Any], name: str) -> MeasureParameters | None:
    """Return what each parameter of a metric's function takes, by its name.

    Args:
        measure: A function of the reply and the ground truth, in either order if both have usual names, or of the
            question, the reply and the ground truth.
        name: Name of the metric, for errors.

    Returns:
        The positions, or None for a function that does not say, such as one written in C.

    Raises:
        DataError: The names do not say which parameter is the ground truth.

    Examples:
        >>> measure_parameters(lambda target, prediction: 1.0, "same")
        MeasureParameters(reply=1, reference=0, takes_all=False, question=None)
    """
    try:
        parameters = list(inspect.signature(measure).parameters.values())
    except (TypeError, ValueError):  # written in C
        return None
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = [parameter.name for parameter in positional if parameter.default is parameter.empty]
    if len(required) == 3:
        return _with_question(required, name)
    if len(positional) < 2 or len(required) > 3:
        return None
    first = positional[0].name
    second = positional[1].name
    if _is_reference(first) and second in REPLY_NAMES:
        return MeasureParameters(reply=1, reference=0, takes_all=_takes_all(first))
    if not _is_reference(second):
        raise DataError(
            f"{name}: the second parameter of a metric is `reference` (one ground truth at a time, the best value "
            f"counts) or `references` (all of them, a tuple); rename {second!r}"
        )
    return MeasureParameters(reply=0, reference=1, takes_all=_takes_all(second))


def _with_question(names: Sequence[str], name: str) -> MeasureParameters:
    """Find out by their names which of three parameters are the reply, the reference and the question.

    The parameter `answer` may be a reply or a reference. It is the reply if another parameter is the reference.

    Args:
        names: Names of the three parameters.
        name: Name of the function, for messages.

    Raises:
        DataError: The names do not say it.
    """
    references: list[int] = []  # positions of parameters
    questions: list[int] = []
    for position, parameter in enumerate(names):
        if _is_reference(parameter):
            references.append(position)
        if parameter in QUESTION_NAMES:
            questions.append(position)
    if len(references) == 2 and "answer" in names:
        references.remove(names.index("answer"))
    if len(references) != 1 or len(questions) != 1:
        raise DataError(
            f"{name}({', '.join(names)}): the names of the parameters do not say what each takes; write {ACCEPTED_FORMS}"
        )
    [reference] = references
    [question] = questions
    [reply] = {0, 1, 2} - {reference, question}
    return MeasureParameters(
        reply=reply,
        reference=reference,
        takes_all=_takes_all(names[reference]),
        question=question,
    )


def _is_reference(name: str) -> bool:
    return name in SINGLE_REFERENCE_NAMES or _takes_all(name)


def _takes_all(name: str) -> bool:
    """Return whether a parameter takes all ground truths of a question, because its name is a plural: `references`."""
    return name.endswith("s") and name not in SINGLE_REFERENCE_NAMES
