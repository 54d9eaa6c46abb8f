"""Ask whether an object is in an image, as POPE does, for any images with the names of their
objects.

For each image with enough objects, the first objects are asked about (the answer is yes). After
each, an absent object is asked about (no): a random one, the most frequent one in all images, or
the one that most often occurs together with the object before (Li et al. 2023, section 4.1, and the
script that the authors published).
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
    """Possible names of the file with the objects of each image: JSON lines with `image` and
    `objects`, or COCO's instances.
    """
    folders: tuple[str, ...] = ("images", "val2014", "val2017", "train2014", "train2017")
    """Possible names of the folder of images.

    If there is none of them, the images are in the folder of the file.
    """
    images: int = 500
    """Number of images to draw from those with enough objects; 0 for all."""
    objects: int = 3
    """Number of objects of each image that are asked about.

    Images with fewer objects are left out.
    """
    question: str = "Is there a {} in the image?"
    """The question, in which `{}` is the object.

    `a` before it becomes `an` if its name begins with a vowel.
    """
    text: Literal["correct", "verbatim"] = "correct"
    """`verbatim` repeats a bug of the authors' script, which replaces every letter a of the
    question by `an` (`imange`).
    """
    draw: Literal["first", "top-half"] = "first"
    """`first`: the highest name in the ranking of absent objects; `top-half`: a random one from the
    upper half, as in LVLM-eHub.
    """
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
    image_folders = []
    for name in chosen.folders:
        image_folder = locate_or_none(folder, name)
        if image_folder:
            image_folders.append(image_folder)
    if not image_folders:
        image_folders = [path.parent]
    number = 0
    left_out_count = len(all_pictures) - len(eligible)
    note = f"{path.name}: {len(sample)} of {len(all_pictures)} images; {left_out_count} have too few objects"
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
    """Return the images to ask about, in the order of the file: `chosen.images` random ones, or all
    if that is 0.

    The same images are drawn whatever the rule for absent objects, so that benchmarks with
    different rules can be compared.
    """
    if not chosen.images:
        return list(pictures)
    rng = rng_for("object presence", "", "pictures", chosen.seed)
    indices = rng.sample(range(len(pictures)), chosen.images)
    return [pictures[index] for index in sorted(indices)]


def object_questions(
    pictures: Sequence[ImageObjects], chosen: Params, rng: random.Random
) -> Iterator[list[tuple[str, Literal["yes", "no"]]]]:
    """Yield the questions about each image, as pairs of an object's name and the answer: `[("dog",
    "yes"), ("cat", "no"), ...]`.

    Names of objects in the image (yes) and names of absent objects (no) alternate. How frequent
    names are, by which absent ones are chosen, is counted in the given images; of equally frequent
    names, the one that appears first is preferred.

    Raises:
        DataError: An image shows all objects, so that none is absent.
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
                half = (len(ranked) + 1) // 2  # rounded up
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
    """Return a function that takes the name of an object in an image, and returns the names of
    absent objects to ask about next.

    The preferred name comes first. The list may contain names of objects that are in the image; the
    caller leaves them out. It is empty for the rule `random`, by which any absent object is drawn.

    Args:
        pictures: The names of the objects in each image.
        negatives: `popular` prefers the most frequent names, `adversarial` those that most often
            occur together with the object.
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
    """Return the question about an object, with `an` before a vowel.

    The authors' script has a bug: it turns every `a` of the question into `an`. The setting
    `verbatim` repeats this.
    """
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
    names: dict[str, None] = {}  # used as an ordered set
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
