"""Any model as the writer of distractors. Its replies are kept by request, under $SNELLEN_HOME."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import TracebackType

import msgspec
from msgspec.structs import replace

from snellen.building.recipe import needs_writing
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.common.paths import home, slug
from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.models.base import AsyncModel, Model, identity_of
from snellen.protocols.distractor_writing import WritingItem, WrittenDistractors
from snellen.protocols.verdict import replay_verdict
from snellen.reformulation.answer_equality import same_answer
from snellen.reformulation.distractors import Rejected, SameAnswer
from snellen.reformulation.wordnet import open_wordnet
from snellen.runs.driving import drive_model
from snellen.runs.journal import RunStore
from snellen.runs.run_folder import check_identity

SHORT = "not written, drawn from other answers"


class ModelDistractorWriter:
    """Writes the distractors that drafts need. A context manager: its journal is open while it is used."""

    def __init__(self, model: Model | AsyncModel, announce: Callable[[str], object] = lambda line: None) -> None:
        self.name = model.name
        self._model, self._announce = model, announce
        author = identity_of(model)
        name, facts = author.name, author.fingerprint
        digest = hashlib.blake2b(msgspec.json.encode((name, facts), order="sorted"), digest_size=4).hexdigest()
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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.__exit__(kind, error, trace)

    def write(self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected) -> list[Draft]:
        """The drafts with the written distractors as the first tier of each round that needs them; `rejected` counts
        the proposals that were left out, by reason.

        Raises ModelError when the model did not answer; what it has already written is kept and not asked for again.
        """
        items = {
            (draft.id, number): WritingItem(benchmark, draft.id, number, question, count, same=self._same)
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
                    _with_written(question, results[draft.id, number]) if (draft.id, number) in results else question
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
