"""Several rounds of questions and answers between models before the answer (LVLM-eHub, appendix A.3, eq. 3-6).

A Questioner breaks the question down into sub-questions, the evaluated model answers each of them alone with the
picture, and a Reasoner concludes, or is in doubt, which leads to another round.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Generator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import UnknownNameError
from snellen.extraction import find_extractor
from snellen.extraction.reading import NamedExtractor
from snellen.protocols.base import Conclusion, Declaration, ProtocolSettings, RequestGenerator
from snellen.protocols.prompts.rendering import LabelStyle, PromptRenderer, labels_for
from snellen.protocols.prompts.role_prompts import (
    AnswerForm,
    ReasoningPrompts,
    fill_case,
    fill_slots,
    named_reasoning_prompts,
    shortened,
)
from snellen.protocols.prompts.templates import Templates
from snellen.protocols.reasoning_parsing import (
    STANDARD_PARSER,
    ReadConclusion,
    ReasoningParser,
    bare_words,
)
from snellen.protocols.verdict import ask_twice, reminded, user_message
from snellen.records import (
    Decoding,
    Exchange,
    ImagePart,
    Message,
    Part,
    Request,
    Response,
    Sample,
    Step,
    TextPart,
    Variant,
)

CAPTION, SUB_QUESTIONS, SUB_ANSWER = "caption", "sub-questions", "sub-answer"
ANALYSIS = "analysis"
"""A step of a Reasoner that may be in doubt."""
CONCLUSION = "conclusion"
"""A step of a Reasoner that must decide."""


class SubAnswer(Struct, frozen=True):
    """A sub-question and what the evaluated model replied."""

    question: str
    reply: str


def reply_text(response: Response) -> str:
    """A reply on one line, without reasoning in tags or turns that the model made up."""
    return " ".join(shortened(response.text or "").split())


class ReasoningRequests:
    """Writes the requests of one sample."""

    def __init__(
        self,
        sample: Sample,
        prompt: PromptRenderer,
        words: ReasoningPrompts,
        presented: Variant,
        most_questions: int,
        role_tokens: int,
        answer_tokens: int,
    ) -> None:
        self.sample, self.presented = sample, presented
        self._prompt, self._words = prompt, words
        self._role_tokens = role_tokens
        self._answer_tokens = prompt.decoding.max_new_tokens or answer_tokens
        self._numbers = itertools.count(1)
        form: AnswerForm = words.choice if sample.options else words.open
        pairs = zip(presented.labels, (sample.options[i] for i in presented.order), strict=True)
        options = "\n".join(f"{label}. {option}" for label, option in pairs)
        self._slots = {
            "question": "\n".join(filter(None, (sample.context, sample.question))),
            "answers": fill_slots(form.answers, {"options": options}),
            "reply": form.reply,
            "count": str(most_questions),
            "doubt": words.doubt,
        }

    def caption(self) -> Request:
        """The first instruction of the family `caption`, with the pictures."""
        return self._to_model(CAPTION, 0, "caption.generation.0", "")

    def sub_answer(self, round_number: int, question: str) -> Request:
        """A sub-question alone, below the first instruction of the family `text`, with the pictures."""
        return self._to_model(SUB_ANSWER, round_number, "text.generation.0", question)

    def sub_questions(
        self, round_number: int, caption: str, answers: Sequence[SubAnswer], analysis: str
    ) -> tuple[Request, Request]:
        """The request, and the one to make when nothing was asked in the reply."""
        words = self._words.questioner
        slots = {**self._case(caption, answers), "analysis": analysis or "nothing"}
        text = fill_case(words.first if round_number == 1 else words.more, slots)
        step = Step(0, SUB_QUESTIONS, round_number)
        return self._to_role("questioner", step, words.system, text, words.again, Variant())

    def conclusion(
        self, round_number: int, caption: str, answers: Sequence[SubAnswer], *, last: bool
    ) -> tuple[Request, Request]:
        """The request, and the one to make when the reply holds neither answer nor doubt."""
        words = self._words.reasoner
        text = fill_case(words.case, self._case(caption, answers))
        purpose, system = (CONCLUSION, words.last) if last else (ANALYSIS, words.system)
        step = Step(0, purpose, round_number)
        return self._to_role("reasoner", step, system, text, words.again, self.presented)

    def _case(self, caption: str, answers: Sequence[SubAnswer]) -> dict[str, str]:
        lines = (
            f"Sub-question {i}: {answer.question}\nAnswer {i}: {answer.reply or '(no answer)'}"
            for i, answer in enumerate(answers, 1)
        )
        return {
            **self._slots,
            "caption": caption,
            "dialogue": "\n".join(lines) or "(none)",
            "analysis": "",
        }

    def _to_model(self, purpose: str, round_number: int, template: str, question: str) -> Request:
        text = "\n".join(filter(None, (self._prompt.templates.named(template), question)))
        pictures: tuple[Part, ...] = tuple(ImagePart(image) for image in self.sample.images)
        message = Message("user", (*pictures, TextPart(text)))
        return self._numbered(
            Request(
                self.sample.benchmark,
                self.sample.id,
                Variant(template=template, step=Step(0, purpose, round_number)),
                (message,),
                decoding=self._prompt.sampled(self._answer_tokens),
            )
        )

    def _to_role(
        self, role: str, step: Step, system: str, text: str, reminder: str, variant: Variant
    ) -> tuple[Request, Request]:
        """The request, and the one with the reminder, which comes right after it or not at all."""
        system_text = fill_slots(system, self._slots)
        request = Request(
            self.sample.benchmark,
            self.sample.id,
            replace(variant, template=self._words.version, step=step),
            (
                *([Message("system", (TextPart(system_text),))] if system_text else []),
                user_message(text),
            ),
            decoding=Decoding(max_new_tokens=self._role_tokens),
            role=role,
        )
        return self._numbered(request), self._numbered(
            reminded(request, fill_slots(reminder, self._slots))
        )

    def _numbered(self, request: Request) -> Request:
        """The request with the next number."""
        variant = request.variant
        step = variant.step and replace(variant.step, number=next(self._numbers))
        return replace(request, variant=replace(variant, step=step))


ROLES = ("questioner", "reasoner")


class _RoundEnd(Struct, frozen=True):
    """What is known after a round."""

    caption: str
    answers: tuple[SubAnswer, ...] = ()
    analysis: str = ""
    decided: bool = False
    """Whether no other round follows."""


Talk = Generator[list[Request], list[Response], _RoundEnd | None]


class Reasoning(ProtocolSettings, frozen=True):
    """Caption, then rounds of sub-questions, sub-answers and analysis, until the Reasoner is sure or rounds are over.

    In the last round doubt is forbidden, and in one for which nothing new was asked. A reply in which nothing can be
    read is asked for once more. A question that ends without an answer is not right, and counted as undecided.
    """

    rounds: int = 4
    questions: int = 5
    """The largest number of sub-questions in a round."""
    caption: Literal["real", "none"] = "real"
    """`none`: without a description, as the published numbers of SNLI-VE were made."""
    parsing: Literal["standard", "legacy"] = "standard"
    prompts: str = ""
    """A suite's own prompts for its questions (the registry's group `reasoning_prompts`), in place of the general
    ones."""
    labels: LabelStyle = "number"
    """Letters instead of numbers where an option is a number itself."""
    extractor: str = "standard"
    """Rules that read the Reasoner's answer."""
    role_tokens: int = 512
    """Longest reply of Questioner and Reasoner, who reply greedily."""
    answer_tokens: int = 64
    """Longest caption and sub-answer, where the run does not say."""

    def __post_init__(self) -> None:
        for name in ("rounds", "questions", "role_tokens", "answer_tokens"):
            if getattr(self, name) < 1:
                raise UnknownNameError(f"reasoning needs {name} >= 1, not {getattr(self, name)}")
        find_extractor(self.extractor)
        if self.prompts:
            named_reasoning_prompts(self.prompts)

    @property
    def declaration(self) -> Declaration:
        return Declaration(
            presentations=1,
            roles=ROLES,
            words=lambda templates: self._words(templates).version,
            conclude=self.conclude,
        )

    def _words(self, templates: Templates) -> ReasoningPrompts:
        return named_reasoning_prompts(self.prompts) if self.prompts else templates.reasoning

    def applies(self, sample: Sample) -> bool:
        return not sample.turns

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        words, presented = self._words(prompt.templates), self._presented(sample)
        ask = ReasoningRequests(
            sample, prompt, words, presented, self.questions, self.role_tokens, self.answer_tokens
        )
        caption = ""
        if self.caption == "real":
            [response] = yield [ask.caption()]
            if response.error is not None:
                return
            caption = reply_text(response)
        state = _RoundEnd(caption)
        for number in range(1, self.rounds + 1):
            end = yield from self._round(ask, state, number)
            if end is None or end.decided:
                return
            state = end

    def _round(self, ask: ReasoningRequests, state: _RoundEnd, number: int) -> Talk:
        """One round; None when a request failed."""
        request, again = ask.sub_questions(number, state.caption, state.answers, state.analysis)
        response, questions = yield from ask_twice(
            request, again, lambda reply: self._new_questions(reply, state) or None
        )
        if response.error is not None:
            return None
        answers = state.answers
        if questions:
            responses = yield [ask.sub_answer(number, question) for question in questions]
            if any(response.error is not None for response in responses):
                return None
            replies = zip(questions, map(reply_text, responses), strict=True)
            answers = (*answers, *(SubAnswer(question, reply) for question, reply in replies))
        last = number == self.rounds or not questions
        request, again = ask.conclusion(number, state.caption, answers, last=last)
        response, verdict = yield from ask_twice(
            request,
            again,
            lambda reply: self._read(ask.sample, reply, ask.presented.labels, last=last),
        )
        if response.error is not None:
            return None
        goes_on = verdict is not None and verdict.doubt and not last
        return _RoundEnd(
            state.caption, answers, verdict.analysis if verdict else "", decided=not goes_on
        )

    def _new_questions(self, reply: str, state: _RoundEnd) -> list[str]:
        earlier = {bare_words(answer.question) for answer in state.answers}
        return [
            question
            for question in self._parser.sub_questions(reply)
            if bare_words(question) not in earlier
        ][: self.questions]

    @property
    def _parser(self) -> ReasoningParser:
        return LEGACY_PARSER if self.parsing == "legacy" else STANDARD_PARSER

    def _read(
        self, sample: Sample, reply: str, labels: Sequence[str], *, last: bool
    ) -> ReadConclusion | None:
        rules = find_extractor(self.extractor)
        return self._parser.conclusion(reply, sample.options, labels, rules, last=last)

    def _presented(self, sample: Sample) -> Variant:
        """How the options are shown to the other models."""
        count, numeric = (
            len(sample.options),
            any(option.strip().isdigit() for option in sample.options),
        )
        style: LabelStyle = "upper" if numeric and self.labels == "number" else self.labels
        labels = labels_for(style, count, sample.benchmark, sample.id, "labels")
        return Variant(order=tuple(range(count)), labels=labels)

    def conclude(self, sample: Sample, steps: Sequence[Exchange]) -> Conclusion | None:
        """The answer of the last analysis; None while the talk is under way."""
        variant = self._presented(sample)
        if failed := next((step for step in steps if step.response.error is not None), None):
            return Conclusion(replace(failed.request, variant=variant), failed.response)
        *earlier, end = steps
        place = end.request.variant.step
        if place is None or place.purpose not in (ANALYSIS, CONCLUSION):
            return None
        last = place.purpose == CONCLUSION
        analysis = self._read(sample, end.response.text or "", variant.labels, last=last)
        before = earlier[-1].request.variant.step if earlier else None
        asked_again = before is not None and (before.round, before.purpose) == (
            place.round,
            place.purpose,
        )
        if (analysis is None and not asked_again) or (
            analysis is not None and analysis.doubt and not last
        ):
            return None
        request = replace(
            end.request, variant=replace(variant, template=end.request.variant.template)
        )
        if analysis is None or analysis.doubt:
            return Conclusion(
                request,
                Response(text=analysis.answer if analysis else end.response.text),
                undecided=True,
            )
        return Conclusion(request, self._written_out(sample, analysis.answer, variant.labels))

    def _written_out(self, sample: Sample, answer: str, labels: Sequence[str]) -> Response:
        """The option that decided the talk with label and text, so that all rules of scoring find the same one."""
        of = f"{sample.benchmark} {sample.id}"
        choice = (
            find_extractor(self.extractor).reading(of, answer, sample.options, labels).choice
            if labels
            else None
        )
        if choice is None:
            return Response(text=answer)
        return Response(
            text=f"({labels[choice]}) {sample.options[choice]}", notes=(f"read in {answer!r}",)
        )


# --- How LVLM-eHub read its Questioner and Reasoner, faults included: case counts, and one line is one ---


_SUB_QUESTION = re.compile(r"^\s*Sub-question \d+:\s*")
_ANSWER = "Answer:"
_ANALYSIS = "Analysis:"
_DOUBT = "We are not sure"


def legacy_sub_questions(reply: str) -> list[str]:
    """Each line that is not empty, without `Sub-question 1:`; several on one line stay one."""
    return [
        question for line in reply.splitlines() if (question := _SUB_QUESTION.sub("", line).strip())
    ]


def legacy_conclusion(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    extractor: NamedExtractor,
    *,
    last: bool,
) -> ReadConclusion | None:
    """What follows the last `Answer:`: the doubt in the paper's words, an option's text, or the first whole number."""
    del extractor, last
    before, marker, words = reply.rpartition(_ANSWER)
    if not marker:
        return None
    analysis = before.rpartition(_ANALYSIS)[2].strip()
    stripped = words.strip(string.punctuation + string.whitespace)
    if _DOUBT in stripped:
        return ReadConclusion(analysis, stripped, doubt=True)
    if not options:
        return ReadConclusion(analysis, stripped) if stripped else None
    if stripped in options:
        return ReadConclusion(analysis, labels[list(options).index(stripped)])
    number = re.search(r"\d+", stripped)
    return ReadConclusion(analysis, number[0]) if number and number[0] in labels else None


LEGACY_PARSER = ReasoningParser(legacy_sub_questions, legacy_conclusion)
