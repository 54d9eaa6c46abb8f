"""Another entry's questions: in a paper's own words, asked openly, or as a dialogue about each image.

Two papers that use the same official files thus share one reader: its files, its mapping, no distractors. Dialogues are
VQA-MT's (ReForm-Eval A.8).
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
    """The drafts of the other entry's source, in its order. Raises DataError for an entry that is not there."""
    chosen = read_params(params, Params)
    catalogue = entries()
    if chosen.of not in catalogue:
        raise DataError(f"of: {registry.unknown_name('benchmark', chosen.of, catalogue)}")
    source = _source(catalogue[chosen.of], chosen)
    read_source = registry.find_registered("readers", source.reader)
    if read_source is read:
        raise DataError(
            f"of: {chosen.of} asks another entry's questions itself; name the one that has the files"
        )
    for draft in read_source(source.params, folder):
        wording = _wording(chosen, draft)
        tags = draft.answer_tags | (
            {chosen.stratum_tag: draft.stratum} if chosen.stratum_tag else {}
        )
        rounds = tuple(_reworded(question, wording, chosen.accept) for question in draft.rounds)
        yield replace(draft, rounds=rounds, answer_tags=tags)


def _source(asked_spec: BenchmarkSpec, chosen: Params) -> SourceSpec:
    """The other's official files, or the rows of its dataset, with the parameters that hold here."""
    official = replace(asked_spec.source, params=merged(asked_spec.source.params, chosen.params))
    if chosen.hub is None:
        return official
    rows = replace(asked_spec, source=official).from_hub().source
    return replace(rows, params=merged(rows.params, chosen.hub))


def _wording(chosen: Params, draft: Draft) -> str:
    """What is asked instead of the draft's own question; empty where that stays."""
    if isinstance(chosen.question, str):
        return chosen.question
    return chosen.question.get(draft.tags.get(chosen.by, ""), "")


def _reworded(
    question: QuestionDraft, wording: str, accept: Literal["all", "first"]
) -> QuestionDraft:
    texts = question.texts[:1] if accept == "first" else question.texts
    reworded = replace(question, question=wording, rewordings=()) if wording else question
    return replace(reworded, texts=texts, distractors=None)


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
    """One dialogue per image, in order of first appearance; rounds do not refer to one another.

    The questions are those drawn for the complete benchmark `of` with seed 0.
    """
    chosen = read_params(params, DialogueParams)
    about: dict[str, list[Draft]] = {}
    spec = entries()[chosen.of]
    for draft in _complete(spec.from_hub() if chosen.hub else spec, folder):
        about.setdefault(draft.group, []).append(draft)
    for group, drafts in about.items():
        if len(drafts) >= chosen.least:
            first = drafts[0]
            yield Draft(
                id=group,
                rounds=tuple(draft.rounds[0] for draft in drafts[: chosen.most]),
                images=first.images,
                where=first.where,
                dialogue=True,
                group=group,
                tags={"rounds": str(min(len(drafts), chosen.most))},
            )


def _complete(spec: BenchmarkSpec, folder: Path | None) -> Iterator[Draft]:
    """The drafts of the complete benchmark, as a build of `spec` draws them from its source."""
    reader = registry.find_registered("readers", spec.source.reader)
    strata = [draft.stratum for draft in reader(spec.source.params, folder)]
    places = frozenset(draw_sample(strata, spec.source.select, spec.name, "select", 0))
    for place, draft in enumerate(reader(spec.source.params, folder)):
        if place in places:
            yield draft
