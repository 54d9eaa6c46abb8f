"""Any model as the writer of distractors. Its replies are kept by request, under $SNELLEN_HOME."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from types import TracebackType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.recipe import needs_writing
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.common.images import Images
from snellen.common.paths import home, slug
from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import identity_of
from snellen.protocols.verdict import NO_PICTURES, replay_verdict, user_message
from snellen.records import Decoding, Request, Response, Variant
from snellen.reformulation.answer_equality import same_answer
from snellen.reformulation.distractor_prompts import (
    ATTEMPTS,
    request_text,
    usable_proposals,
    writer_prompts,
)
from snellen.reformulation.distractors import Rejected, SameAnswer
from snellen.reformulation.wordnet import open_wordnet
from snellen.runs.driving import drive_model
from snellen.runs.run_store import RunStore
from snellen.runs.unchanged_models import check_identity

SHORT = "not written, drawn from other answers"


class ModelDistractorWriter:
    """Writes the distractors that drafts need. A context manager: its journal is open while it is used."""

    def __init__(
        self, model: Model | AsyncModel, announce: Callable[[str], object] = lambda line: None
    ) -> None:
        self.name = model.name
        self._model, self._announce = model, announce
        author = identity_of(model)
        name, facts = author.name, author.fingerprint
        digest = hashlib.blake2b(
            msgspec.json.encode((name, facts), order="sorted"), digest_size=4
        ).hexdigest()
        self.folder = home() / "written" / f"{slug(name)[:60]}-{digest}"
        check_identity(self.folder, self.name, facts)

    def __enter__(self) -> ModelDistractorWriter:
        self._store = RunStore(self.folder)
        try:
            self._same: SameAnswer = open_wordnet().synonymous
        except (DataError, MissingExtraError) as error:
            self._same = same_answer
            self._announce(f"synonyms among written distractors are not checked: {error}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.__exit__(kind, error, trace)

    def write(
        self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected
    ) -> list[Draft]:
        """The drafts with the written distractors as the first tier of each round that needs them; `rejected` counts
        the proposals that were left out, by reason.

        Raises ModelError when the model did not answer; what it has already written is kept and not asked for again.
        """
        items = {
            (draft.id, number): WritingItem(
                benchmark, draft.id, number, question, count, same=self._same
            )
            for draft in drafts
            for number, question in enumerate(draft.rounds)
            if needs_writing(question)
        }
        unanswered = [item for item in items.values() if self._settled(item) is None]
        drive_model(self._model, iter(unanswered), self._store)
        results = {key: self._result(item) for key, item in items.items()}
        for distractors in results.values():
            rejected.update(distractors.rejected)
            if (short := count - len(distractors.options)) > 0:
                rejected[SHORT] += short
        return [
            replace(
                draft,
                rounds=tuple(
                    _with_written(question, results[draft.id, number])
                    if (draft.id, number) in results
                    else question
                    for number, question in enumerate(draft.rounds)
                ),
            )
            for draft in drafts
        ]

    def _settled(self, item: WritingItem) -> WrittenDistractors | None:
        """The distractors that the stored responses yield, or None when one is missing."""
        return replay_verdict(item.start(), lambda request: self._store.find(item.label, request))

    def _result(self, item: WritingItem) -> WrittenDistractors:
        result = self._settled(item)
        if result is None or result.error:
            raise ModelError(
                f"the writer {self.name} did not answer for {item.benchmark} {item.sample_id}; what it wrote is "
                f"in {self.folder}; the same command asks only what is missing"
            )
        return result


def _with_written(question: QuestionDraft, result: WrittenDistractors) -> QuestionDraft:
    """The question with the written distractors ahead of all other candidates."""
    spec = question.distractors or DistractorSpec()
    return replace(question, distractors=replace(spec, tiers=(result.options, *spec.tiers)))


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
                return WrittenDistractors(
                    tuple(options), rejected, f"{response.error.kind}: {response.error.detail}"
                )
            options += usable_proposals(
                response.text or "", self.question, options, rejected, self.same
            )
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
            decoding=Decoding(
                max_new_tokens=self.max_new_tokens,
                temperature=0.7 if attempt else 0.0,
                seed=attempt,
            ),
        )
