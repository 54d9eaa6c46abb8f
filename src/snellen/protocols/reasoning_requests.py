"""The requests of a reasoning of several rounds, numbered as they are made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.prompts.judge_prompts import fill_slots, shortened
from snellen.prompts.reasoning_prompts import AnswerForm, ReasoningPrompts, fill_case
from snellen.prompts.rendering import PromptRenderer
from snellen.protocols.verdict import reminded, user_message
from snellen.records import Decoding, ImagePart, Message, Part, Request, Response, Sample, Step, TextPart, Variant

CAPTION, SUB_QUESTIONS, SUB_ANSWER = "caption", "sub-questions", "sub-answer"
ANALYSIS = "analysis"
"""Of a Reasoner who may doubt."""
CONCLUSION = "conclusion"
"""Of one who must not."""


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
        shown = zip(presented.labels, (sample.options[i] for i in presented.order), strict=True)
        options = "\n".join(f"{label}. {option}" for label, option in shown)
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
        return {**self._slots, "caption": caption, "dialogue": "\n".join(lines) or "(none)", "analysis": ""}

    def _to_model(self, purpose: str, round_number: int, template: str, question: str) -> Request:
        text = "\n".join(filter(None, (self._prompt.templates.named(template), question)))
        pictures: tuple[Part, ...] = tuple(ImagePart(image) for image in self.sample.images)
        message = Message("user", (*pictures, TextPart(text)))
        return self._made(
            Request(
                self.sample.benchmark,
                self.sample.id,
                Variant(template=template, step=Step(0, purpose, round_number)),
                (message,),
                decoding=self._prompt.sampled(self._answer_tokens),
            )
        )

    def _to_role(
        self, role: str, step: Step, system: str, text: str, reminder: str, shown: Variant
    ) -> tuple[Request, Request]:
        """The request, and the one with the reminder, which comes right after it or not at all."""
        told = fill_slots(system, self._slots)
        request = Request(
            self.sample.benchmark,
            self.sample.id,
            replace(shown, template=self._words.version, step=step),
            (*([Message("system", (TextPart(told),))] if told else []), user_message(text)),
            decoding=Decoding(max_new_tokens=self._role_tokens),
            role=role,
        )
        return self._made(request), self._made(reminded(request, fill_slots(reminder, self._slots)))

    def _made(self, request: Request) -> Request:
        """The request with the next number."""
        variant = request.variant
        step = variant.step and replace(variant.step, number=next(self._numbers))
        return replace(request, variant=replace(variant, step=step))
