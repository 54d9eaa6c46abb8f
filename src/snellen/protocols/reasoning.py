"""Rounds of questions and answers between models before the answer (LVLM-eHub, appendix A.3, eq. 3-6).

A Questioner divides the question into sub-questions, the evaluated model answers each of them separately with the
image, and a Reasoner concludes or expresses doubt, which starts another round.
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
    shortened,
)
from snellen.protocols.prompts.templates import PromptTemplates, registered_templates
from snellen.protocols.reasoning_parsing import (
    STANDARD_PARSER,
    ReadConclusion,
    ReasoningParser,
    bare_words,
)
from snellen.protocols.verdict import ask_twice, user_message, with_reminder
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

CAPTION = "caption"
SUB_QUESTIONS = "sub-questions"
SUB_ANSWER = "sub-answer"
ANALYSIS = "analysis"
"""Purpose of a Reasoner's step that may express doubt."""
CONCLUSION = "conclusion"
"""Purpose of a Reasoner's step that must decide."""


class SubAnswer(Struct, frozen=True):
    """A sub-question and the evaluated model's reply."""

    question: str
    reply: str


def reply_text(response: Response) -> str:
    """Return a reply on one line, without tagged reasoning and without turns that the model made up."""
    return " ".join(shortened(response.text or "").split())


class ReasoningRequests:
    """Builds the requests of one sample, and numbers them as steps."""

    def __init__(
        self,
        sample: Sample,
        prompt: PromptRenderer,
        prompts: ReasoningPrompts,
        presented: Variant,
        most_questions: int,
        role_tokens: int,
        answer_tokens: int,
    ) -> None:
        """Fill the slots of the prompts that stay the same in all rounds."""
        self.sample = sample
        self.presented = presented
        self._prompt = prompt
        self._words = prompts
        self._role_tokens = role_tokens
        self._answer_tokens = prompt.decoding.max_new_tokens or answer_tokens
        self._numbers = itertools.count(1)
        form: AnswerForm = prompts.choice if sample.options else prompts.open
        option_lines: list[str] = []
        for label, index in zip(presented.labels, presented.order, strict=True):
            option_lines.append(f"{label}. {sample.options[index]}")
        question_parts = [part for part in (sample.context, sample.question) if part]
        self._slots = {
            "question": "\n".join(question_parts),
            "answers": fill_slots(form.answers, {"options": "\n".join(option_lines)}),
            "reply": form.reply,
            "count": str(most_questions),
            "doubt": prompts.doubt,
        }

    def caption(self) -> Request:
        """Return the request for a description of the images, with the first instruction of the family `caption`."""
        return self._to_model(CAPTION, 0, "caption.generation.0", "")

    def sub_answer(self, round_number: int, question: str) -> Request:
        """Return the request for the answer to one sub-question, with the images and an instruction of the family `text`."""
        return self._to_model(SUB_ANSWER, round_number, "text.generation.0", question)

    def sub_questions(
        self, round_number: int, caption: str, answers: Sequence[SubAnswer], analysis: str
    ) -> tuple[Request, Request]:
        """Return the request for sub-questions, and the one to repeat it with if the reply contains none."""
        prompts = self._words.questioner
        slots = {**self._case(caption, answers), "analysis": analysis or "nothing"}
        text = fill_case(prompts.first if round_number == 1 else prompts.more, slots)
        step = Step(0, SUB_QUESTIONS, round_number)
        return self._to_role("questioner", step, prompts.system, text, prompts.again, Variant())

    def conclusion(
        self, round_number: int, caption: str, answers: Sequence[SubAnswer], *, last: bool
    ) -> tuple[Request, Request]:
        """Return the request for the conclusion, and the one to repeat it with if the reply neither answers nor doubts."""
        prompts = self._words.reasoner
        text = fill_case(prompts.case, self._case(caption, answers))
        if last:
            step = Step(0, CONCLUSION, round_number)
            system = prompts.last
        else:
            step = Step(0, ANALYSIS, round_number)
            system = prompts.system
        return self._to_role("reasoner", step, system, text, prompts.again, self.presented)

    def _case(self, caption: str, answers: Sequence[SubAnswer]) -> dict[str, str]:
        """Return the values of all slots: the question, the caption, and the sub-questions with their answers."""
        lines: list[str] = []
        for number, answer in enumerate(answers, 1):
            lines.append(f"Sub-question {number}: {answer.question}")
            lines.append(f"Answer {number}: {answer.reply or '(no answer)'}")
        return {
            **self._slots,
            "caption": caption,
            "dialogue": "\n".join(lines) or "(none)",
            "analysis": "",
        }

    def _to_model(self, purpose: str, round_number: int, template: str, question: str) -> Request:
        """Return a request to the evaluated model, with the images of the sample.

        Args:
            purpose: What the request is for: `CAPTION` or `SUB_ANSWER`.
            round_number: The round, from 1; 0 before the first one.
            template: The name of the instruction.
            question: The question after the instruction; may be empty.
        """
        instruction = self._prompt.templates.named(template)
        text = "\n".join(part for part in (instruction, question) if part)
        image_parts: tuple[Part, ...] = tuple(ImagePart(image) for image in self.sample.images)
        message = Message("user", (*image_parts, TextPart(text)))
        request = Request(
            self.sample.benchmark,
            self.sample.id,
            Variant(template=template, step=Step(0, purpose, round_number)),
            (message,),
            decoding=self._prompt.sampled(self._answer_tokens),
        )
        return self._numbered(request)

    def _to_role(
        self, role: str, step: Step, system: str, text: str, reminder: str, variant: Variant
    ) -> tuple[Request, Request]:
        """Return a request to a model in a role, and the same request with a reminder.

        The second one is sent if the reply to the first cannot be read. It is then the next step.

        Args:
            role: `questioner` or `reasoner`.
            step: Purpose and round of the request. Its number is filled in here.
            system: The system prompt, whose slots are filled; may be empty.
            text: The text of the request.
            reminder: What the second request adds.
            variant: How the options are shown to the model.
        """
        messages = [user_message(text)]
        system_text = fill_slots(system, self._slots)
        if system_text:
            messages.insert(0, Message("system", (TextPart(system_text),)))
        request = Request(
            self.sample.benchmark,
            self.sample.id,
            replace(variant, template=self._words.version, step=step),
            tuple(messages),
            decoding=Decoding(max_new_tokens=self._role_tokens),
            role=role,
        )
        first = self._numbered(request)
        repeated = self._numbered(with_reminder(request, fill_slots(reminder, self._slots)))
        return first, repeated

    def _numbered(self, request: Request) -> Request:
        """Return the request with the number of the next step; steps are numbered from 1."""
        variant = request.variant
        step = variant.step
        if step is not None:
            step = replace(step, number=next(self._numbers))
        return replace(request, variant=replace(variant, step=step))


ROLES = ("questioner", "reasoner")


class _RoundEnd(Struct, frozen=True):
    """What is known after a round: the caption, the answers so far, the analysis, and whether it was the last."""

    caption: str
    answers: tuple[SubAnswer, ...] = ()
    analysis: str = ""
    decided: bool = False
    """Whether this was the last round."""


Talk = Generator[list[Request], list[Response], _RoundEnd | None]


class Reasoning(ProtocolSettings, frozen=True):
    """Caption, then rounds of sub-questions, answers and analysis, until the Reasoner decides or the rounds are over.

    Doubt is forbidden in the last round, and in a round without new sub-questions. A reply that cannot be read is
    requested once more. A question that ends without an answer is scored as wrong and counted as undecided.
    """

    rounds: int = 4
    questions: int = 5
    """Maximum sub-questions in a round."""
    caption: Literal["real", "none"] = "real"
    """`none` omits the description, as for the published numbers of SNLI-VE."""
    parsing: Literal["standard", "legacy"] = "standard"
    prompts: str = ""
    """Name of a suite's set of templates whose texts for this protocol replace those of the run."""
    labels: LabelStyle = "number"
    """Option labels. `number` becomes `upper` if an option is itself a number."""
    extractor: str = "standard"
    """Rules that extract the Reasoner's answer."""
    role_tokens: int = 512
    """Maximum length of the replies of Questioner and Reasoner, which are decoded greedily."""
    answer_tokens: int = 64
    """Maximum length of captions and sub-answers if the run does not set one."""

    def __post_init__(self) -> None:
        """Raise an error for numbers below 1, an unknown extractor or unknown prompts."""
        for name in ("rounds", "questions", "role_tokens", "answer_tokens"):
            if getattr(self, name) < 1:
                raise UnknownNameError(f"reasoning needs {name} >= 1, not {getattr(self, name)}")
        find_extractor(self.extractor)
        if self.prompts:
            registered_templates(self.prompts)

    @property
    def declaration(self) -> Declaration:
        """One presentation, answered in a conversation with models in the roles of Questioner and Reasoner."""
        return Declaration(
            presentations=1,
            roles=ROLES,
            words=lambda templates: self._words(templates).version,
            conclude=self.conclude,
        )

    def _words(self, templates: PromptTemplates) -> ReasoningPrompts:
        """Return the prompts of this protocol: those of the suite that the setting `prompts` names, or of the run."""
        if self.prompts:
            return registered_templates(self.prompts).reasoning
        return templates.reasoning

    def applies(self, sample: Sample) -> bool:
        return not sample.turns

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Ask round after round until the Reasoner decides, starting with a caption of the image if one is wanted."""
        requests = ReasoningRequests(
            sample,
            prompt,
            prompts=self._words(prompt.templates),
            presented=self._presented(sample),
            most_questions=self.questions,
            role_tokens=self.role_tokens,
            answer_tokens=self.answer_tokens,
        )
        caption = ""
        if self.caption == "real":
            [response] = yield [requests.caption()]
            if response.error is not None:
                return
            caption = reply_text(response)
        state = _RoundEnd(caption)
        for number in range(1, self.rounds + 1):
            end = yield from self._round(requests, state, number)
            if end is None or end.decided:
                return
            state = end

    def _round(self, builder: ReasoningRequests, state: _RoundEnd, number: int) -> Talk:
        """Run one round: sub-questions, their answers, and a conclusion.

        Args:
            builder: Makes the requests.
            state: The end of the round before.
            number: Number of the round.

        Returns:
            The end of the round, or None if a request failed.
        """

        def read_questions(reply: str) -> list[str] | None:
            return self._new_questions(reply, state) or None

        first_request, second_request = builder.sub_questions(
            number, state.caption, state.answers, state.analysis
        )
        response, questions = yield from ask_twice(first_request, second_request, read_questions)
        if response.error is not None:
            return None

        answers = list(state.answers)
        if questions:
            responses = yield [builder.sub_answer(number, question) for question in questions]
            for question, response in zip(questions, responses, strict=True):
                if response.error is not None:
                    return None
                answers.append(SubAnswer(question, reply_text(response)))

        is_last = number == self.rounds or not questions

        def read_conclusion(reply: str) -> ReadConclusion | None:
            return self._read(builder.sample, reply, builder.presented.labels, last=is_last)

        first_request, second_request = builder.conclusion(
            number, state.caption, tuple(answers), last=is_last
        )
        response, conclusion = yield from ask_twice(first_request, second_request, read_conclusion)
        if response.error is not None:
            return None
        is_in_doubt = conclusion is not None and conclusion.doubt
        return _RoundEnd(
            state.caption,
            tuple(answers),
            analysis=conclusion.analysis if conclusion else "",
            decided=is_last or not is_in_doubt,
        )

    def _new_questions(self, reply: str, state: _RoundEnd) -> list[str]:
        """Return the sub-questions in a reply that no earlier round has asked, up to the maximum."""
        earlier_questions = {bare_words(answer.question) for answer in state.answers}
        new_questions: list[str] = []
        for question in self._parser.sub_questions(reply):
            if bare_words(question) not in earlier_questions:
                new_questions.append(question)
        return new_questions[: self.questions]

    @property
    def _parser(self) -> ReasoningParser:
        return LEGACY_PARSER if self.parsing == "legacy" else STANDARD_PARSER

    def _read(
        self, sample: Sample, reply: str, labels: Sequence[str], *, last: bool
    ) -> ReadConclusion | None:
        """Return the conclusion in a Reasoner's reply; None if there is none.

        In the last round, an answer counts even if the reply also expresses doubt.
        """
        rules = find_extractor(self.extractor)
        return self._parser.conclusion(reply, sample.options, labels, rules, last=last)

    def _presented(self, sample: Sample) -> Variant:
        """Return how the options are shown to the other models."""
        count = len(sample.options)
        style = self.labels
        has_numbers = any(option.strip().isdigit() for option in sample.options)
        if has_numbers and style == "number":
            style = "upper"
        labels = labels_for(style, count, sample.benchmark, sample.id, "labels")
        return Variant(order=tuple(range(count)), labels=labels)

    def conclude(self, sample: Sample, steps: Sequence[Exchange]) -> Conclusion | None:
        """Return the conclusion that the steps so far lead to, or None if further steps follow.

        A failed step ends the question with its failure. Otherwise the last step decides if it is an analysis or a
        conclusion of the Reasoner: by its answer, or as undecided if it still doubts at the end, or if its reply could
        not be read twice.
        """
        variant = self._presented(sample)
        for exchange in steps:
            if exchange.response.error is not None:
                return Conclusion(replace(exchange.request, variant=variant), exchange.response)

        *earlier_steps, last_exchange = steps
        step = last_exchange.request.variant.step
        if step is None or step.purpose not in (ANALYSIS, CONCLUSION):
            return None
        is_last = step.purpose == CONCLUSION
        reply = last_exchange.response.text
        conclusion = self._read(sample, reply or "", variant.labels, last=is_last)
        template = last_exchange.request.variant.template
        request = replace(last_exchange.request, variant=replace(variant, template=template))
        if conclusion is None:
            # A reply that cannot be read is requested once more, as a step of the same round and purpose.
            previous = earlier_steps[-1].request.variant.step if earlier_steps else None
            was_repeated = (
                previous is not None
                and previous.round == step.round
                and previous.purpose == step.purpose
            )
            if not was_repeated:
                return None
            return Conclusion(request, Response(text=reply), undecided=True)
        if conclusion.doubt and not is_last:
            return None
        if conclusion.doubt:
            return Conclusion(request, Response(text=conclusion.answer), undecided=True)
        return Conclusion(request, self._written_out(sample, conclusion.answer, variant.labels))

    def _written_out(self, sample: Sample, answer: str, labels: Sequence[str]) -> Response:
        """Return the chosen option as "(B) red", so that every extractor finds the same option.

        The answer is returned unchanged if the options have no labels, or if no option can be read in it.
        """
        if not labels:
            return Response(text=answer)
        rules = find_extractor(self.extractor)
        sample_name = f"{sample.benchmark} {sample.id}"
        choice = rules.reading(sample_name, answer, sample.options, labels).choice
        if choice is None:
            return Response(text=answer)
        text = f"({labels[choice]}) {sample.options[choice]}"
        return Response(text=text, notes=(f"read in {answer!r}",))


# --- How LVLM-eHub read its Questioner and Reasoner, faults included: case counts, and one line is one ---


_SUB_QUESTION = re.compile(r"^\s*Sub-question \d+:\s*")
_ANSWER = "Answer:"
_ANALYSIS = "Analysis:"
_DOUBT = "We are not sure"


def legacy_sub_questions(reply: str) -> list[str]:
    """Return each line that is not empty, without `Sub-question 1:`. A line with several questions counts as one."""
    questions = [_SUB_QUESTION.sub("", line).strip() for line in reply.splitlines()]
    return [question for question in questions if question]


def legacy_conclusion(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    extractor: NamedExtractor,
    *,
    last: bool,
) -> ReadConclusion | None:
    """Return the conclusion after the last `Answer:` in a reply, as the paper's code reads it.

    It is the paper's phrase of doubt, the text of an option, or the first number if this is one of the labels. For an
    open question, it is the text as it is. None if the reply has no `Answer:` or nothing of this kind after it.
    """
    del extractor, last
    before, marker, conclusion = reply.rpartition(_ANSWER)
    if not marker:
        return None
    analysis = before.rpartition(_ANALYSIS)[2].strip()
    stripped = conclusion.strip(string.punctuation + string.whitespace)
    if _DOUBT in stripped:
        return ReadConclusion(analysis, stripped, doubt=True)
    if not options:
        return ReadConclusion(analysis, stripped) if stripped else None
    if stripped in options:
        return ReadConclusion(analysis, labels[list(options).index(stripped)])
    number = re.search(r"\d+", stripped)
    return ReadConclusion(analysis, number[0]) if number and number[0] in labels else None


LEGACY_PARSER = ReasoningParser(legacy_sub_questions, legacy_conclusion)
