"""A model writes the distractors of an open question, asked again until there are enough (ReForm-Eval A.4, A.8)."""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from snellen.common.drafts import QuestionDraft
from snellen.common.images import Images
from snellen.protocols.verdict import NO_PICTURES, user_message
from snellen.records import Decoding, Request, Response, Variant
from snellen.reformulation.answer_equality import same_answer
from snellen.reformulation.distractor_prompts import ATTEMPTS, request_text, usable_proposals, writer_prompts
from snellen.reformulation.distractors import SameAnswer


class WrittenDistractors(Struct, frozen=True):
    """The distractors a writer gave for one question: at most as many as requested."""

    options: tuple[str, ...]
    rejected: dict[str, int]
    """Proposals that were left out, by reason."""
    error: str = ""
    """Why an attempt got no answer; the question has to be asked again later."""


Writing = Generator[list[Request], list[Response], WrittenDistractors]


class WritingItem(Struct, frozen=True):
    """One question to be given distractors. The request holds words only."""

    benchmark: str
    sample_id: str
    turn: int
    question: QuestionDraft
    count: int
    max_new_tokens: int = 256
    same: SameAnswer = same_answer

    @property
    def label(self) -> str:
        return f"writing ({writer_prompts().version})"

    @property
    def images(self) -> Images:
        return NO_PICTURES

    def start(self) -> Writing:
        rejected: dict[str, int] = {}
        options: list[str] = []
        for attempt in range(ATTEMPTS):
            [response] = yield [self._request(attempt)]
            if response.error is not None:
                return WrittenDistractors(tuple(options), rejected, f"{response.error.kind}: {response.error.detail}")
            options += usable_proposals(response.text or "", self.question, options, rejected, self.same)
            if len(options) >= self.count:
                break
        return WrittenDistractors(tuple(options[: self.count]), rejected)

    def _request(self, attempt: int) -> Request:
        return Request(
            benchmark=self.benchmark,
            sample_id=self.sample_id,
            variant=Variant(test=attempt, turn=self.turn),
            messages=(user_message(request_text(self.question, self.count, attempt)),),
            # At temperature 0 the reply would be the same again, so each further attempt samples.
            decoding=Decoding(max_new_tokens=self.max_new_tokens, temperature=0.7 if attempt else 0.0, seed=attempt),
        )
