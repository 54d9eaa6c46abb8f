"""VizWiz's pictures by blind people with five workers' votes on their quality (ReForm-Eval A.1: VizWiz_2, VizWiz_4).

Reads `annotations/val.json` of the quality issues task, a list of `{"image": ..., "flaws": {"FRM": 2, ...}}`, and
the folder `val`. A picture counts when one verdict stands alone at the top and most workers share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from snellen.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.formats.json_files import list_items, read_json
from snellen.formats.locate import locate
from snellen.readers.exclusions import Exclusion, without_exclusions

WORKERS = 5
Votes = Annotated[int, msgspec.Meta(ge=0, le=WORKERS)]
FLAW_NAMES = {
    "FRM": "bad framing",
    "BLR": "blur",
    "DRK": "too dark",
    "BRT": "too bright",
    "OBS": "an obstructed view",
    "ROT": "a rotated view",
}
"""The flaws by their code. Not among them: NON (no flaw) and OTH (another one), which names nothing."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["any", "which"]
    """Whether there is an issue (VizWiz_2), or which it is (VizWiz_4)."""


class Flaws(Struct, frozen=True):
    """How many workers saw each flaw; a worker may see several."""

    FRM: Votes
    BLR: Votes
    DRK: Votes
    BRT: Votes
    OBS: Votes
    ROT: Votes
    OTH: Votes
    NON: Votes


class QualityRecord(Struct, frozen=True):
    image: str
    flaws: Flaws


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per picture on which the workers agree."""
    task = read_params(params, Params).task
    path = locate(folder, "annotations/val.json", "quality_annotations/val.json", "val.json")
    return without_exclusions(_items(path, locate(folder, "val", "Images/val"), task), path)


def _items(path: Path, pictures: Path, task: str) -> Iterator[Draft | Exclusion]:
    for where, item in list_items(path, "items", read_json(path, list[msgspec.Raw]), QualityRecord):
        votes = Counter(asdict(item.flaws))
        (top, most), (_, next_most), *_ = votes.most_common()
        if 2 * most <= WORKERS or most == next_most:
            yield Exclusion("no verdict that most workers share and that stands alone at the top")
        elif task == "any":
            yield _draft(item, where, pictures, _any(top == "NON"))
        elif top not in FLAW_NAMES:
            yield Exclusion("no flaw that has a name")
        else:
            yield _draft(item, where, pictures, _which(votes, top))


def _any(flawless: bool) -> QuestionDraft:
    question = "Is anything wrong with the quality of the picture, such as blur, bad framing or too little light?"
    return QuestionDraft(question, texts=("no" if flawless else "yes",), distractors=DistractorSpec())


def _which(votes: Counter[str], top: str) -> QuestionDraft:
    """The flaw with the most votes, from those with fewer: the more votes the nearer, equal ones drawn at random."""
    tiers: dict[int, list[str]] = {}
    for flaw, count in votes.most_common():
        if flaw in FLAW_NAMES and flaw != top:
            tiers.setdefault(count, []).append(FLAW_NAMES[flaw])
    distractors = DistractorSpec(tuple(map(tuple, tiers.values())))
    return QuestionDraft(
        "Which quality issue of the picture stands out most?", texts=(FLAW_NAMES[top],), distractors=distractors
    )


def _draft(item: QualityRecord, where: str, pictures: Path, question: QuestionDraft) -> Draft:
    return Draft(
        id=item.image,
        rounds=(question,),
        images=(pictures / item.image,),
        where=where,
        group=item.image,
        stratum=question.texts[0],
    )
