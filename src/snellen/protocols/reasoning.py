"""Several rounds of questions and answers between models before the answer (LVLM-eHub, appendix A.3, eq. 3-6).

A Questioner breaks the question down into sub-questions, the evaluated model answers each of them alone with the
picture, and a Reasoner concludes, or is in doubt, which leads to another round.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import UnknownNameError
from snellen.extraction import find_extractor
from snellen.prompts.option_labels import LabelStyle, labels_for
from snellen.prompts.reasoning_prompts import ReasoningPrompts, named_reasoning_prompts
from snellen.prompts.rendering import PromptRenderer
from snellen.prompts.templates import Templates
from snellen.protocols.base import ProtocolSettings, RequestGenerator
from snellen.protocols.declaration import Conclusion, Declaration
from snellen.protocols.prediction import check_extractor
from snellen.protocols.reasoning_legacy import LEGACY_PARSER
from snellen.protocols.reasoning_parsing import STANDARD_PARSER, ReadConclusion, ReasoningParser, bare_words
from snellen.protocols.reasoning_requests import ANALYSIS, CONCLUSION, ReasoningRequests, SubAnswer, reply_text
from snellen.protocols.verdict import ask_twice
from snellen.records import Exchange, Method, Request, Response, Sample, Variant

ROLES = ("questioner", "reasoner")
Talk = Generator[list[Request], list[Response], "_RoundEnd | None"]


class Reasoning(ProtocolSettings, frozen=True):
    """Caption, then rounds of sub-questions, sub-answers and analysis, until the Reasoner is sure or rounds are over.

    In the last round doubt is forbidden, and in one for which nothing new was asked. A reply in which nothing can be
    read is asked for once more. A question that ends without an answer is not right, and counted as undecided.
    """

    rounds: int = 4
    questions: int = 5
    """Most sub-questions of a round."""
    caption: Literal["real", "none"] = "real"
    """`none`: without a description, as the published numbers of SNLI-VE were made."""
    parsing: Literal["standard", "legacy"] = "standard"
    prompts: str = ""
    """Words of a suite for its questions (the registry's group `reasoning_prompts`), in place of the general ones."""
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
        check_extractor(self.extractor)
        if self.prompts:
            named_reasoning_prompts(self.prompts)

    @property
    def method(self) -> Method:
        return "generation"

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

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        words, presented = self._words(prompt.templates), self._presented(sample)
        ask = ReasoningRequests(sample, prompt, words, presented, self.questions, self.role_tokens, self.answer_tokens)
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
        response, found = yield from ask_twice(request, again, lambda reply: self._new_questions(reply, state) or None)
        if response.error is not None:
            return None
        answers = state.answers
        if found:
            responses = yield [ask.sub_answer(number, question) for question in found]
            if any(response.error is not None for response in responses):
                return None
            replies = zip(found, map(reply_text, responses), strict=True)
            answers = (*answers, *(SubAnswer(question, reply) for question, reply in replies))
        last = number == self.rounds or not found
        request, again = ask.conclusion(number, state.caption, answers, last=last)
        response, read = yield from ask_twice(
            request, again, lambda reply: self._read(ask.sample, reply, ask.presented.labels, last=last)
        )
        if response.error is not None:
            return None
        goes_on = read is not None and read.doubt and not last
        return _RoundEnd(state.caption, answers, read.analysis if read else "", decided=not goes_on)

    def _new_questions(self, reply: str, state: _RoundEnd) -> list[str]:
        known = {bare_words(answer.question) for answer in state.answers}
        return [one for one in self._parser.sub_questions(reply) if bare_words(one) not in known][: self.questions]

    @property
    def _parser(self) -> ReasoningParser:
        return LEGACY_PARSER if self.parsing == "legacy" else STANDARD_PARSER

    def _read(self, sample: Sample, reply: str, labels: Sequence[str], *, last: bool) -> ReadConclusion | None:
        rules = find_extractor(self.extractor)
        return self._parser.conclusion(reply, sample.options, labels, rules, last=last)

    def _presented(self, sample: Sample) -> Variant:
        """How the options are shown to the other models."""
        count, numeric = len(sample.options), any(option.strip().isdigit() for option in sample.options)
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
        read = self._read(sample, end.response.text or "", variant.labels, last=last)
        before = earlier[-1].request.variant.step if earlier else None
        asked_again = before is not None and (before.round, before.purpose) == (place.round, place.purpose)
        if (read is None and not asked_again) or (read is not None and read.doubt and not last):
            return None
        request = replace(end.request, variant=replace(variant, template=end.request.variant.template))
        if read is None or read.doubt:
            return Conclusion(request, Response(text=read.answer if read else end.response.text), undecided=True)
        return Conclusion(request, self._written_out(sample, read.answer, variant.labels))

    def _written_out(self, sample: Sample, answer: str, labels: Sequence[str]) -> Response:
        """The option that decided the talk with label and text, so that all rules of scoring find the same one."""
        choice = find_extractor(self.extractor).read(answer, sample.options, labels).choice if labels else None
        if choice is None:
            return Response(text=answer)
        return Response(text=f"({labels[choice]}) {sample.options[choice]}", notes=(f"read in {answer!r}",))


class _RoundEnd(Struct, frozen=True):
    """What is known after a round."""

    caption: str
    answers: tuple[SubAnswer, ...] = ()
    analysis: str = ""
    decided: bool = False
    """Whether no other round follows."""
