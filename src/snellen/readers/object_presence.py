"""Questions whether an object is in an image, made from any images with object names, as POPE makes them.

Of each image with enough objects the first ones are asked for, and after each a name that is not there: drawn
at random, the most frequent one of all images, or the one seen most often together with the object before it
(Li et al. 2023, section 4.1, and the builder that the authors published).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.json_files import json_lines
from snellen.formats.locate import base_of, locate_file, locate_or_none
from snellen.readers.coco import read_instances

NegativeRule = Literal["random", "popular", "adversarial"]


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    negatives: NegativeRule
    files: tuple[str, ...] = ("objects.jsonl", "instances*.json", "annotations/instances*.json")
    """The names with the images: JSON lines of `image` and `objects`, or COCO's instances."""
    folders: tuple[str, ...] = ("images", "val2014", "val2017", "train2014", "train2017")
    """Names of the images' folder; else they lie beside the file."""
    images: int = 500
    """How many images are drawn from those with enough objects; 0 means all of them."""
    objects: int = 3
    """How many objects of an image are asked for; one that has fewer is left out."""
    question: str = "Is there a {} in the image?"
    """`{}` is the object, and `a` before it becomes `an` where it begins with a vowel."""
    text: Literal["correct", "verbatim"] = "correct"
    """`verbatim`: as the authors' builder writes it, `an` for every letter a of the question (`imange`)."""
    draw: Literal["first", "top-half"] = "first"
    """Of the ranked names the first that is not there, or any of the upper half of the ranking, as LVLM-eHub says."""
    seed: int = 0


class ImageObjects(Struct, frozen=True):
    """An image and the distinct names of its objects, in the order of their first annotation."""

    image: str
    objects: tuple[str, ...]
    where: str = ""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The drafts of all images, those with an object and those without in turns.

    Raises DataError for a file that is in neither form, fewer images than `images`, or an image that is missing.
    """
    chosen = read_params(params, Params)
    path = locate_file(folder, *chosen.files)
    every = _read(path)
    enough = [picture for picture in every if len(picture.objects) >= chosen.objects]
    if not enough:
        raise DataError(f"{path}: no image has {chosen.objects} objects or more")
    rng = rng_for("object presence", chosen.negatives, "negatives", chosen.seed)
    if chosen.images > len(enough):
        raise DataError(
            f"{path}: {len(enough)} images have {chosen.objects} objects or more, {chosen.images} are to be drawn; "
            f"set images = {len(enough)}, or 0 for all"
        )
    sample = _draw(enough, chosen)
    bases = [base for name in chosen.folders if (base := locate_or_none(folder, name))] or [
        path.parent
    ]
    number = 0
    note = f"{path.name}: {len(sample)} of {len(every)} images; {len(every) - len(enough)} have too few objects"
    for picture, labelled_names in zip(sample, object_questions(sample, chosen, rng), strict=True):
        file = base_of(picture.image, bases, picture.where) / picture.image
        for name, label in labelled_names:
            number += 1
            yield Draft(
                id=str(number),
                rounds=(QuestionDraft(_worded(name, chosen), texts=(label,)),),
                images=(file,),
                where=picture.where,
                group=picture.image,
                answer_tags={"label": label},
                notes=(note,) if number == 1 else (),
                stratum=label,
            )


def _draw(pictures: Sequence[ImageObjects], chosen: Params) -> list[ImageObjects]:
    """The same images for all three rules, in the order of the file."""
    if not chosen.images:
        return list(pictures)
    rng = rng_for("object presence", "", "pictures", chosen.seed)
    return [pictures[place] for place in sorted(rng.sample(range(len(pictures)), chosen.images))]


def object_questions(
    pictures: Sequence[ImageObjects], chosen: Params, rng: random.Random
) -> Iterator[list[tuple[str, Literal["yes", "no"]]]]:
    """For each image the names asked for, each with its label: one that is there, one that is not, and so on.

    Frequencies are over the given images; of equals the name met first goes first. Raises DataError for an image
    in which every name occurs.
    """
    ranking = ranked_negatives([picture.objects for picture in pictures], chosen.negatives)
    names = list(dict.fromkeys(name for picture in pictures for name in picture.objects))
    for picture in pictures:
        labelled_names: list[tuple[str, Literal["yes", "no"]]] = []
        for positive in picture.objects[: chosen.objects]:
            labelled_names.append((positive, "yes"))
            excluded = {*picture.objects, *(name for name, _ in labelled_names)}
            absent = [name for name in names if name not in excluded]
            if not absent:
                raise DataError(
                    f"{picture.where}: no name is left to ask for that is not in {picture.image}"
                )
            ranked = ranking(positive)
            ranked = ranked[: -(-len(ranked) // 2)] if chosen.draw == "top-half" else ranked
            near = [name for name in ranked if name not in excluded]
            if near and chosen.draw == "first":
                labelled_names.append((near[0], "no"))
            else:
                labelled_names.append((rng.choice(near or absent), "no"))
        yield labelled_names


def ranked_negatives(
    pictures: Sequence[Sequence[str]], negatives: NegativeRule
) -> Callable[[str], list[str]]:
    """(object) -> the names to try after it, the likeliest first; none to draw from all. `pictures` are their names."""
    if negatives == "random":
        return lambda positive: []
    if negatives == "popular":
        popular = [
            name for name, _ in Counter(name for names in pictures for name in names).most_common()
        ]
        return lambda positive: popular
    together: dict[str, Counter[str]] = {}
    for names in pictures:
        for name in names:
            together.setdefault(name, Counter()).update(
                neighbour for neighbour in names if neighbour != name
            )
    ranked = {
        name: [neighbour for neighbour, _ in counts.most_common()]
        for name, counts in together.items()
    }
    return lambda positive: ranked[positive]


def _worded(name: str, chosen: Params) -> str:
    vowel = name[:1].lower() in "aeiou"
    if chosen.text == "verbatim":
        return (chosen.question.replace("a", "an") if vowel else chosen.question).format(name)
    return (chosen.question.replace("a {}", "an {}") if vowel else chosen.question).format(name)


# --- files -----------------------------------------------------------------------------------------------------


class _Line(Struct, frozen=True):
    image: str
    objects: list[str]


def _read(path: Path) -> list[ImageObjects]:
    if path.suffix == ".jsonl":
        pictures = [_of_line(line, where) for where, line in json_lines(path, _Line)]
    else:
        pictures = _of_instances(path)
    if twice := next(
        (name for name, n in Counter(picture.image for picture in pictures).items() if n > 1), None
    ):
        raise DataError(
            f"{path}: the image {twice} stands in it twice; give all its objects in one place"
        )
    return pictures


def _of_line(line: _Line, where: str) -> ImageObjects:
    if any(not name.strip() for name in line.objects):
        raise DataError(f"{where}: the name of an object is empty")
    return ImageObjects(
        line.image, tuple(dict.fromkeys(name.strip() for name in line.objects)), where
    )


def _of_instances(path: Path) -> list[ImageObjects]:
    instances = read_instances(path, Path())
    return [
        ImageObjects(
            str(file),
            tuple(
                dict.fromkeys(
                    instances.name(annotation.category_id)
                    for _, annotation in instances.by_image.get(image, ())
                )
            ),
            f"{path}: image {image}",
        )
        for image, file in instances.images.items()
    ]
