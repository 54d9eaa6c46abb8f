"""VizWiz's pictures by blind people with five workers' votes on their quality (ReForm-Eval A.1: VizWiz_2, VizWiz_4).

Reads `annotations/val.json` of the quality issues task, a list of `{"image": ..., "flaws": {"FRM": 2, ...}}`, and
the folder `val`. A picture counts when its first verdict leads the next by some votes, and when that verdict is
not a flaw at all or one that has a name: the pictures of VizWiz_2 are those of VizWiz_4 and the flawless ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
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

UNCLEAR = "no verdict that leads the next one by {} or more votes"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["any", "which"]
    """Whether there is an issue (VizWiz_2), or which it is (VizWiz_4)."""
    lead: int = 2
    """Votes by which the first verdict must lead the next one."""
    most: int = 1
    """Votes that the first verdict must have."""


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
    chosen = read_params(params, Params)
    path = locate(folder, "annotations/val.json", "quality_annotations/val.json", "val.json")
    return without_exclusions(_items(path, locate(folder, "val", "Images/val"), chosen), path)


def _items(path: Path, pictures: Path, chosen: Params) -> Iterator[Draft | Exclusion]:
    for where, item in list_items(path, "items", read_json(path, list[msgspec.Raw]), QualityRecord):
        votes = Counter(asdict(item.flaws))
        (top, most), (_, next_most), *_ = votes.most_common()
        if most < chosen.most or most - next_most < max(chosen.lead, 1):
            yield Exclusion(UNCLEAR.format(chosen.lead))
        elif top not in {*FLAW_NAMES, "NON"}:
            yield Exclusion("a flaw that has no name")
        elif chosen.task == "any":
            yield _draft(item, where, pictures, _any(top == "NON"))
        elif top == "NON":
            yield Exclusion("no flaw")
        else:
            yield _draft(item, where, pictures, _flaw_question(votes, top))


def _any(flawless: bool) -> QuestionDraft:
    question = "Is anything wrong with the quality of the picture, such as blur, bad framing or too little light?"
    return QuestionDraft(question, texts=("no" if flawless else "yes",), distractors=DistractorSpec())


def _flaw_question(votes: Counter[str], top: str) -> QuestionDraft:
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
