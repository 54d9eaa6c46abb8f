"""Questions whether an object is in an image, made from any images with object names, as POPE makes them.

Of each image with enough objects the first ones are asked for, and after each a name that is not there: drawn
at random, the most frequent one of all images, or the one seen most often together with the object before it
(Li et al. 2023, section 4.1, and the builder that the authors published).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
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
    """Yield the questions about all images, alternating between objects that are there and objects that are not.

    Raises DataError for a file that is in neither form, fewer images than `images`, or an image that is missing.
    """
    chosen = read_params(params, Params)
    path = locate_file(folder, *chosen.files)
    all_pictures = _read_image_objects(path)
    eligible = [picture for picture in all_pictures if len(picture.objects) >= chosen.objects]
    if not eligible:
        raise DataError(f"{path}: no image has {chosen.objects} objects or more")
    rng = rng_for("object presence", chosen.negatives, "negatives", chosen.seed)
    if chosen.images > len(eligible):
        raise DataError(
            f"{path}: {len(eligible)} images have {chosen.objects} objects or more, {chosen.images} are to be drawn; "
            f"set images = {len(eligible)}, or 0 for all"
        )
    sample = _draw_images(eligible, chosen)
    image_folders = [base for name in chosen.folders if (base := locate_or_none(folder, name))]
    if not image_folders:
        image_folders = [path.parent]
    number = 0
    n_left_out = len(all_pictures) - len(eligible)
    note = f"{path.name}: {len(sample)} of {len(all_pictures)} images; {n_left_out} have too few objects"
    for picture, labelled_names in zip(sample, object_questions(sample, chosen, rng), strict=True):
        file = base_of(picture.image, image_folders, picture.where) / picture.image
        for name, label in labelled_names:
            number += 1
            yield Draft(
                id=str(number),
                rounds=(QuestionDraft(_question_text(name, chosen), texts=(label,)),),
                images=(file,),
                where=picture.where,
                group=picture.image,
                answer_tags={"label": label},
                notes=(note,) if number == 1 else (),
                stratum=label,
            )


def _draw_images(pictures: Sequence[ImageObjects], chosen: Params) -> list[ImageObjects]:
    """Return the images to ask about, in the order of the file: all, or as many as `chosen.images` says, at random.

    The draw is the same for each rule by which absent objects are chosen.
    """
    if not chosen.images:
        return list(pictures)
    rng = rng_for("object presence", "", "pictures", chosen.seed)
    indices = rng.sample(range(len(pictures)), chosen.images)
    return [pictures[index] for index in sorted(indices)]


def object_questions(
    pictures: Sequence[ImageObjects], chosen: Params, rng: random.Random
) -> Iterator[list[tuple[str, Literal["yes", "no"]]]]:
    """Yield for each image the names to ask for, each with its label: one that is in the image, one that is not,
    and so on.

    Frequencies of names are counted over the given images; of equally frequent names, the one met first comes
    first. Raises DataError for an image in which every name occurs.
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
            if chosen.draw == "top-half":
                half = -(-len(ranked) // 2)  # rounded up
                ranked = ranked[:half]
            ranked_absent = [name for name in ranked if name not in excluded]
            if ranked_absent and chosen.draw == "first":
                negative = ranked_absent[0]
            else:
                negative = rng.choice(ranked_absent or absent)
            labelled_names.append((negative, "no"))
        yield labelled_names


def ranked_negatives(
    pictures: Sequence[Sequence[str]], negatives: NegativeRule
) -> Callable[[str], list[str]]:
    """Return a function from an object's name to the absent names to ask for after it, the preferred one first.

    The function returns an empty list if names are drawn at random.

    Args:
        pictures: The names of the objects in each image.
        negatives: `popular` ranks names by frequency, `adversarial` by how often they occur together with the object.
    """
    if negatives == "random":
        return lambda positive: []
    if negatives == "popular":
        image_counts: Counter[str] = Counter()
        for names in pictures:
            image_counts.update(names)
        by_frequency = [name for name, _ in image_counts.most_common()]
        return lambda positive: by_frequency

    neighbour_counts: dict[str, Counter[str]] = defaultdict(Counter)
    for names in pictures:
        for name in names:
            neighbours = [neighbour for neighbour in names if neighbour != name]
            neighbour_counts[name].update(neighbours)
    names_after: dict[str, list[str]] = {}
    for name, counts in neighbour_counts.items():
        names_after[name] = [neighbour for neighbour, _ in counts.most_common()]
    return names_after.__getitem__


def _question_text(name: str, chosen: Params) -> str:
    """Return the question about an object, with `an` before a vowel. `verbatim` repeats the authors' bug, which
    also turns every other `a` of the question into `an`."""
    template = chosen.question
    begins_with_vowel = name[:1].lower() in "aeiou"
    if begins_with_vowel and chosen.text == "verbatim":
        template = template.replace("a", "an")
    elif begins_with_vowel:
        template = template.replace("a {}", "an {}")
    return template.format(name)


# --- files -----------------------------------------------------------------------------------------------------


class _Line(Struct, frozen=True):
    image: str
    objects: list[str]


def _read_image_objects(path: Path) -> list[ImageObjects]:
    """Return the images of a file with the names of their objects. Raises DataError if an image is listed twice."""
    if path.suffix == ".jsonl":
        pictures = [_parse_line(line, where) for where, line in json_lines(path, _Line)]
    else:
        pictures = _coco_image_objects(path)
    counts = Counter(picture.image for picture in pictures)
    for image, count in counts.items():
        if count > 1:
            raise DataError(
                f"{path}: the image {image} stands in it twice; give all its objects in one place"
            )
    return pictures


def _parse_line(line: _Line, where: str) -> ImageObjects:
    """Return an image and the names of its objects, without repetitions. Raises DataError if a name is empty."""
    names: dict[str, None] = {}  # without repetitions, in order
    for name in line.objects:
        if not name.strip():
            raise DataError(f"{where}: the name of an object is empty")
        names[name.strip()] = None
    return ImageObjects(image=line.image, objects=tuple(names), where=where)


def _coco_image_objects(path: Path) -> list[ImageObjects]:
    """Return the images of a COCO file, each with the distinct names of its annotated objects."""
    instances = read_instances(path, Path())
    pictures = []
    for image, file in instances.images.items():
        annotations = instances.by_image.get(image, ())
        names = [instances.name(annotation.category_id) for _, annotation in annotations]
        pictures.append(
            ImageObjects(
                image=str(file),
                objects=tuple(dict.fromkeys(names)),
                where=f"{path}: image {image}",
            )
        )
    return pictures
