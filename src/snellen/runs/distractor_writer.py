"""A distractor writer that uses any model. Its replies are stored by request, under $SNELLEN_HOME."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from types import TracebackType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.recipe import needs_writing
from snellen.callers import for_caller
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.common.images import Images
from snellen.common.paths import slug, snellen_home
from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import identity_of
from snellen.protocols.verdict import NO_IMAGES, replay_verdict, user_message
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

TOO_FEW_WRITTEN = "not written by the model; drawn from other answers instead"


class ModelDistractorWriter:
    """Writes distractors for drafts. A context manager, whose journal is open inside the block."""

    def __init__(
        self, model: Model | AsyncModel, announce: Callable[[str], object] = lambda line: None
    ) -> None:
        """Open the folder in which the replies of this model are stored.

        Args:
            model: The model that writes wrong options.
            announce: Receives lines for the user.

        Raises:
            StoreError: The folder has replies of another model.
        """
        self.name = model.name
        self._model = model
        self._announce = announce
        identity = identity_of(model)
        identity_json = msgspec.json.encode((identity.name, identity.fingerprint), order="sorted")
        digest = hashlib.blake2b(identity_json, digest_size=4).hexdigest()
        folder_name = f"{slug(identity.name)[:60]}-{digest}"
        self.folder = snellen_home() / "written" / folder_name
        check_identity(self.folder, self.name, identity.fingerprint)

    def __enter__(self) -> ModelDistractorWriter:
        """Open the stored replies, and WordNet, which rejects synonyms of the answer if it is installed."""
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
        """Close the stored replies."""
        self._store.__exit__(kind, error, trace)

    def write(
        self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected
    ) -> list[Draft]:
        """Let a model write wrong options (distractors) for the questions that need them.

        Args:
            benchmark: Name of the benchmark.
            drafts: The samples.
            count: Wrong options per question.
            rejected: Counter of rejected proposals by reason. It is updated.

        Returns:
            The samples. A question for which the model wrote options has them before all other candidates for its
            options.

        Raises:
            ModelError: The model did not reply. Its earlier replies are stored and not requested again.
        """
        items: dict[tuple[str, int], WritingItem] = {}
        for draft in drafts:
            for turn, question in enumerate(draft.rounds):
                if needs_writing(question):
                    items[draft.id, turn] = WritingItem(
                        benchmark, draft.id, turn, question, count, is_same_answer=self._same
                    )
        unanswered = [item for item in items.values() if self._stored_distractors(item) is None]
        drive_model(self._model, iter(unanswered), self._store)

        distractors_by_question: dict[tuple[str, int], WrittenDistractors] = {}
        for key, item in items.items():
            distractors = self._distractors(item)
            distractors_by_question[key] = distractors
            rejected.update(distractors.rejected)
            n_missing = count - len(distractors.options)
            if n_missing > 0:
                rejected[TOO_FEW_WRITTEN] += n_missing

        completed: list[Draft] = []
        for draft in drafts:
            rounds = list(draft.rounds)
            for turn, question in enumerate(rounds):
                written = distractors_by_question.get((draft.id, turn))
                if written is not None:
                    rounds[turn] = _with_distractors(question, written)
            completed.append(replace(draft, rounds=tuple(rounds)))
        return completed

    def _stored_distractors(self, item: WritingItem) -> WrittenDistractors | None:
        """Return the distractors of a question from the stored responses, or None if a response is missing."""
        return replay_verdict(item.start(), lambda request: self._store.find(item.label, request))

    def _distractors(self, item: WritingItem) -> WrittenDistractors:
        """Return the distractors of a question from the stored responses.

        Raises:
            ModelError: The model did not reply, or its reply failed.
        """
        result = self._stored_distractors(item)
        if result is None or result.error:
            raise ModelError(
                f"the writer {self.name} did not reply for {item.benchmark} {item.sample_id}; its earlier output "
                f"is in {self.folder}; repeat the {for_caller('command', 'call')} to request only what is missing"
            )
        return result


def _with_distractors(question: QuestionDraft, written: WrittenDistractors) -> QuestionDraft:
    """Return the question with the distractors that a model wrote as the first tier of candidates for its options."""
    spec = question.distractors or DistractorSpec()
    tiers = (written.options, *spec.tiers)
    return replace(question, distractors=replace(spec, tiers=tiers))


class WrittenDistractors(Struct, frozen=True):
    """The distractors that a writer gave for one question, at most as many as requested."""

    options: tuple[str, ...]
    rejected: dict[str, int]
    """Number of rejected proposals, by reason."""
    error: str = ""
    """Why an attempt failed; the question must then be sent again later."""


Writing = Generator[list[Request], list[Response], WrittenDistractors]


class WritingItem(Struct, frozen=True):
    """A question that needs distractors. The request contains only text."""

    benchmark: str
    sample_id: str
    turn: int
    question: QuestionDraft
    count: int
    max_new_tokens: int = 256
    is_same_answer: SameAnswer = same_answer

    @property
    def label(self) -> str:
        return f"writing ({writer_prompts().version})"

    @property
    def images(self) -> Images:
        return NO_IMAGES

    def start(self) -> Writing:
        """Ask the model for wrong options until there are enough, or until all attempts are used.

        Yields:
            A list with one request. The caller sends the response back.

        Returns:
            The options, the number of rejected proposals by reason, and an error if there was one.
        """
        rejected: dict[str, int] = {}
        options: list[str] = []
        for attempt in range(ATTEMPTS):
            [response] = yield [self._request(attempt)]
            if response.error is not None:
                error = f"{response.error.kind}: {response.error.detail}"
                return WrittenDistractors(tuple(options), rejected, error)
            reply = response.text or ""
            options += usable_proposals(
                reply, self.question, options, rejected, self.is_same_answer
            )
            if len(options) >= self.count:
                break
        return WrittenDistractors(tuple(options[: self.count]), rejected)

    def _request(self, attempt: int) -> Request:
        """Return the request for distractors of this attempt, counted from 0."""
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
