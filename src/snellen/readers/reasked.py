"""Ask the questions of another benchmark in another way: in a paper's own words, without options,
or as dialogues.

So two papers that use the same official files share the settings by which these are read. The
dialogues are those of VQA-MT (ReForm-Eval A.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.catalogue import BenchmarkSpec, SourceSpec, entries
from snellen.catalogue.entries import merged
from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.readers.calling import find_reader
from snellen.reformulation.sampling import draw_sample


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    of: str
    """The catalogue benchmark whose whole source is read: the part that its entry draws does not matter."""
    params: dict[str, Any] = {}
    """The parameters that its source has here; tables are merged."""
    hub: dict[str, Any] | None = None
    """Given when its dataset on the hub is read rather than its official files: the parameters of the rows."""
    question: str | dict[str, str] = ""
    """What is asked, for all or by the tag `by`; the source's own question where nothing is given."""
    by: str = ""
    """The tag by which questions differ."""
    accept: Literal["all", "first"] = "all"
    """Whether other accepted texts than the first count."""
    stratum_tag: str = ""
    """The answer tag that is a question's stratum, by which a sample may be drawn later; none when empty."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of another benchmark in the catalogue, in its order, with new wording and
    without options.

    Raises DataError if that benchmark does not exist.
    """
    chosen = read_params(params, Params)
    catalogue = entries()
    if chosen.of not in catalogue:
        raise DataError(f"of: {registry.unknown_name('benchmark', chosen.of, catalogue)}")
    source = _source_with_changes(catalogue[chosen.of], chosen)
    read_source = find_reader(source.reader)
    if read_source is read:
        raise DataError(
            f"of: {chosen.of} asks another entry's questions itself; name the one that has the files"
        )
    for draft in read_source(source.params, folder):
        wording = _replacement_question(chosen, draft)
        answer_tags = dict(draft.answer_tags)
        if chosen.stratum_tag:
            answer_tags[chosen.stratum_tag] = draft.stratum
        rounds = tuple(
            _reworded_question(question, wording, chosen.accept) for question in draft.rounds
        )
        yield replace(draft, rounds=rounds, answer_tags=answer_tags)


def _source_with_changes(asked_spec: BenchmarkSpec, chosen: Params) -> SourceSpec:
    """Return the source of the other benchmark, with the parameters that this entry changes.

    It is that of the official files or, if this entry has `hub`, that of the benchmark's dataset on
    the hub.
    """
    official = replace(asked_spec.source, params=merged(asked_spec.source.params, chosen.params))
    if chosen.hub is None:
        return official
    rows = replace(asked_spec, source=official).from_hub().source
    return replace(rows, params=merged(rows.params, chosen.hub))


def _replacement_question(chosen: Params, draft: Draft) -> str:
    """Return the wording that replaces the question of a draft; empty if the draft keeps its own
    question.

    The entry gives one wording for all questions, or one for each value of the tag `chosen.by`.
    """
    if isinstance(chosen.question, str):
        return chosen.question
    tag_value = draft.tags.get(chosen.by, "")
    return chosen.question.get(tag_value, "")


def _reworded_question(
    question: QuestionDraft, wording: str, accept: Literal["all", "first"]
) -> QuestionDraft:
    """Return a question in a new wording, to be asked without options.

    Args:
        question: The question.
        wording: The new wording; if empty, the question keeps its own.
        accept: Which of the accepted answers to keep: `all`, or only the `first`.
    """
    texts = question.texts[:1] if accept == "first" else question.texts
    if wording:
        # Rewordings belong to the question that they reword.
        question = replace(question, question=wording, rewordings=())
    return replace(question, texts=texts, distractors=None)


class DialogueParams(Struct, frozen=True, forbid_unknown_fields=True):
    of: str
    """The catalogue benchmark whose complete form supplies the questions."""
    least: int = 3
    """Images with fewer questions give no dialogue."""
    most: int = 10
    """Maximum number of rounds; the first ones are used."""
    hub: bool = False
    """Whether the questions come from the benchmark's hub dataset."""


def read_as_dialogues(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a dialogue for each image, in the order of first appearance, with the questions about it as rounds.

    The rounds do not refer to one another. The questions are those that a build of the benchmark `of` draws with
    seed 0. An image with fewer than `least` questions is skipped.
    """
    chosen = read_params(params, DialogueParams)
    drafts_by_image: dict[str, list[Draft]] = {}
    spec = entries()[chosen.of]
    for draft in _drafts_of_sample(spec.from_hub() if chosen.hub else spec, folder):
        drafts_by_image.setdefault(draft.group, []).append(draft)
    for group, drafts in drafts_by_image.items():
        if len(drafts) < chosen.least:
            continue
        asked = drafts[: chosen.most]
        first = drafts[0]
        yield Draft(
            id=group,
            rounds=tuple(draft.rounds[0] for draft in asked),
            images=first.images,
            where=first.where,
            dialogue=True,
            group=group,
            tags={"rounds": str(len(asked))},
        )


def _drafts_of_sample(spec: BenchmarkSpec, folder: Path | None) -> Iterator[Draft]:
    """Yield the questions that belong to a complete benchmark, which are drawn from its source with
    seed 0.

    The source is read twice: first only for the strata (the groups by which questions are drawn),
    then for the drawn questions.
    """
    reader = find_reader(spec.source.reader)
    strata = [draft.stratum for draft in reader(spec.source.params, folder)]
    sampled = frozenset(draw_sample(strata, spec.source.select, spec.name, "select", 0))
    for index, draft in enumerate(reader(spec.source.params, folder)):
        if index in sampled:
            yield draft
