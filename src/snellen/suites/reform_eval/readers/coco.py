"""Questions about images of MSCOCO: their objects, their captions, and expressions that refer to an object in a box.

Objects: which object is in the image, which is in a box, and which is missing (ReForm-Eval A.2).

Reads `instances_val2017.json` and the folder `val2017`, as the COCO site distributes them. Readers of other
benchmarks also use the functions here to read COCO's objects and captions.

Captions: does this caption fit the image (itm), and which of several captions does (its)? (ReForm-Eval A.6)

Reads `captions_val2017.json`, `instances_val2017.json` and the folder `val2017` of the COCO site. Every caption of
the split makes a question. Wrong captions come from images with similar but not the same objects: of each such
image, the caption that mentions most nearly the same objects as the correct one.

RefCOCO: which expression refers to the object in the box? (ReForm-Eval A.2)

Reads `refs(unc).p` (a pickle file, which is read without running any code in it) or the same list as
`refs(unc).json`, `instances.json` in the same folder, and COCO's folder `train2014`. Every expression of the split
makes a question.

Wrong options are expressions for objects of other categories, preferably of the same super-category (people have
one of their own). An expression such as "left one", which somebody also used for an object of the correct category,
may be right, and is not used.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from snellen.common.drafts import (
    DistractorSpec,
    Draft,
    ImageSpec,
    Outline,
    QuestionDraft,
    read_params,
)
from snellen.common.drawing import PALETTE
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.json_files import converted, list_items, packaged_toml, read_json
from snellen.formats.locate import locate_file
from snellen.formats.pickles import load_pickle
from snellen.readers.coco import CocoAnnotation, CocoImage, CocoObjects, read_instances
from snellen.readers.question_types import plural
from snellen.records import Region
from snellen.reformulation.answer_equality import fold_answer, same_answer
from snellen.suites.reform_eval import wording

MIN_MOS_SIDE = 50
"""Pixels that both sides of a box must have to take part in missing object selection (A.2)."""
MAX_MOS_BOXES = 4
"""At most so many boxes are drawn, so that the colours of the paper suffice."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["mci", "goi", "mos"]
    split: str = "val2017"


class CocoCaption(Struct, frozen=True):
    id: int
    image_id: int
    caption: str


class _Captions(Struct, frozen=True):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]


def locate_images(folder: Path | None, split: str) -> Path:
    """Return the folder of a split's images, in the layouts of the COCO site and of REFER's interface."""
    return locate_file(folder, split, f"images/{split}", f"images/mscoco/images/{split}")


def read_objects(folder: Path | None, split: str) -> CocoObjects:
    """Return the annotated objects of a split, and the images they are in.

    Raises DataError if the annotations and images do not belong together.
    """
    path = locate_file(folder, f"annotations/instances_{split}.json", f"instances_{split}.json")
    return read_instances(path, locate_images(folder, split))


def read_captions(folder: Path | None, split: str) -> dict[int, list[tuple[str, CocoCaption]]]:
    """Return the captions of a split by the id of their image, each with its location for messages.

    An image without captions has an empty list. Raises DataError for an empty caption, or one whose image is not in
    the file.
    """
    path = locate_file(folder, f"annotations/captions_{split}.json", f"captions_{split}.json")
    content = read_json(path, _Captions)
    captions: dict[int, list[tuple[str, CocoCaption]]] = {
        image.id: [] for _, image in list_items(path, "images", content.images, CocoImage)
    }
    for where, caption in list_items(path, "annotations", content.annotations, CocoCaption):
        if caption.image_id not in captions:
            raise DataError(f"{where}: there is no image {caption.image_id}")
        if not caption.caption.strip():
            raise DataError(f"{where}: the caption is empty")
        captions[caption.image_id].append((where, caption))
    return captions


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each object (tasks mci, goi) or for each image (task mos), in the order of the annotations."""
    chosen = read_params(params, Params)
    objects = read_objects(folder, chosen.split)
    if chosen.task == "mos":
        yield from _missing_object_questions(objects)
        return
    for image in objects.by_image:
        for where, annotation in objects.by_image[image]:
            if not annotation.iscrowd:
                yield _present_object_question(
                    objects, annotation, where, boxed=chosen.task == "goi"
                )


def _present_object_question(
    objects: CocoObjects, annotation: CocoAnnotation, where: str, *, boxed: bool
) -> Draft:
    """Return the question which object an image shows (task mci), or which is in the red box (task goi).

    Wrong options are preferably classes of the same super-category, such as other animals, then any classes. In
    goi, other classes that the image shows are the first choice; in mci these would be correct, so they are never
    used.

    Args:
        objects: All objects, their classes and images.
        annotation: The object that is asked about.
        where: File and position, for error messages.
        boxed: Whether to draw a box around the object (goi).
    """
    category = objects.categories[annotation.category_id]
    file = objects.images[annotation.image_id]
    other_categories = objects.present(annotation.image_id) - {category.id}
    other_names = tuple(objects.name(other_category) for other_category in sorted(other_categories))
    similar_names = objects.names(of=category.supercategory)
    all_names = objects.names()
    picture: Path | bytes | ImageSpec = file
    regions: tuple[Region, ...] = ()
    if boxed:
        question = "Which object is inside the red box?"
        distractors = DistractorSpec(tiers=(other_names, similar_names, all_names))
        picture = ImageSpec(file, outlines=(Outline(annotation.bbox, width=3),))
        regions = (Region(annotation.bbox),)
    else:
        question = "Which of these objects does the picture show?"
        distractors = DistractorSpec(tiers=(similar_names, all_names), also_right=other_names)
    return Draft(
        id=str(annotation.id),
        rounds=(QuestionDraft(question, texts=(category.name,), distractors=distractors),),
        images=(picture,),
        where=where,
        regions=regions,
        group=str(annotation.image_id),
        answer_tags={"supercategory": category.supercategory},
        stratum=category.supercategory,
    )


def _missing_object_questions(objects: CocoObjects) -> Iterator[Draft]:
    """Yield for each suitable image the question which object is in none of the boxes drawn on it (the task "mos").

    Boxes are drawn around at most `MAX_MOS_BOXES` large objects, and their classes are the wrong options. The correct
    option is a class that the image shows outside the boxes. If there is none, it is a class that the image does not
    show, although a glance at the image is then enough to answer.

    An image is used if all its large objects are of different classes. With this rule, the number of images comes
    nearest to the paper's 2,479, and the accuracy of guessing to what its models reach
    (docs/evidence/reform-eval.md).
    """
    for image, annotated in objects.by_image.items():
        large: list[tuple[str, CocoAnnotation]] = []
        for where, annotation in annotated:
            _, _, width, height = annotation.bbox
            if not annotation.iscrowd and min(width, height) >= MIN_MOS_SIDE:
                large.append((where, annotation))
        large_categories = {annotation.category_id for _, annotation in large}
        has_two_of_a_class = len(large_categories) < len(large)
        if not large or has_two_of_a_class:
            continue
        rng = rng_for("mscoco-mos", image, "boxes")
        chosen = rng.sample(large, min(len(large), MAX_MOS_BOXES))
        first_location, _ = chosen[0]
        boxed = frozenset(annotation.category_id for _, annotation in chosen)
        present = objects.present(image)
        candidates = sorted(present - boxed)
        if not candidates:
            candidates = sorted(set(objects.categories) - present)
        if not candidates:
            continue
        missing = objects.categories[rng.choice(candidates)]
        boxed_names = tuple(objects.name(category) for category in sorted(boxed))
        question = QuestionDraft(
            "Which of these objects is inside none of the boxes?",
            texts=(missing.name,),
            distractors=DistractorSpec(tiers=(boxed_names,), allow_fewer=True),
        )
        outlines = []
        regions = []
        for number, (_, annotation) in enumerate(chosen):
            colour = PALETTE[number % len(PALETTE)]
            outlines.append(Outline(annotation.bbox, colour=colour, width=3))
            regions.append(Region(annotation.bbox))
        yield Draft(
            id=str(image),
            rounds=(question,),
            images=(ImageSpec(objects.images[image], outlines=tuple(outlines)),),
            where=first_location,
            regions=tuple(regions),
            group=str(image),
            answer_tags={"supercategory": missing.supercategory},
            stratum=missing.supercategory,
        )


NEIGHBOUR_COUNT = 12
"""How many similar images are searched for captions: more than there are options, because some captions are equal."""


class PairParams(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["itm", "its"]
    split: str = "val2017"


def read_pairs(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a question for each caption, in the order of the images.

    Task `itm` asks whether a caption fits the image, and `its` which of several captions does.
    """
    chosen = read_params(params, PairParams)
    objects = read_objects(folder, chosen.split)
    captions = read_captions(folder, chosen.split)
    pairs = _Pairs(objects, captions)
    for image, image_captions in captions.items():
        if image_captions and image not in objects.images:
            raise DataError(
                f"{image_captions[0][0]}: the image {image} is not among those of instances_{chosen.split}.json"
            )
        for where, caption in image_captions:
            if chosen.task == "itm":
                yield _matching_question(pairs, caption, where)
            else:
                yield _caption_choice_question(pairs, caption, where)


class _Pairs:
    """Images with their captions, to find captions that nearly fit an image and so make hard wrong options.

    Images are compared by the categories of objects that they show, such as dog, and captions by the categories
    that they mention.
    """

    def __init__(
        self, objects: CocoObjects, captions: dict[int, list[tuple[str, CocoCaption]]]
    ) -> None:
        """Prepare the captions of all images, and what they and their images show."""
        self._categories_of = category_finder(objects.names(), coco_words())
        self.pictures = objects.images
        self.own: dict[int, list[str]] = {}
        """The captions of each image."""
        self._categories_by_caption: dict[int, list[tuple[str, Categories]]] = {}
        """For each image, its captions with the categories that each mentions."""
        self._shown: dict[int, Categories] = {}
        """The categories that each image with captions shows."""
        for image, image_captions in captions.items():
            texts = [caption.caption.strip() for _, caption in image_captions]
            self.own[image] = texts
            self._categories_by_caption[image] = [
                (text, self._categories_of(text)) for text in texts
            ]
            if texts:
                present = objects.present(image)
                self._shown[image] = frozenset(objects.name(category) for category in present)
        self._neighbours = SimilarImages(self._shown)
        self._near: dict[int, list[int]] = {}
        """The most similar images of each image, once they were needed."""

    def nearly_right(self, caption: CocoCaption) -> tuple[str, ...]:
        """Return captions of other images that nearly fit the image of a caption.

        They belong to the most similar images, one caption for each, in order of similarity. Of an image's
        captions, the one that mentions most nearly the same categories as the given caption is taken.
        """
        image = caption.image_id
        if image not in self._near:
            rng = rng_for("coco-pairs", image, "neighbours")
            self._near[image] = self._neighbours.nearest(image, NEIGHBOUR_COUNT, rng)
        mentioned = self._categories_of(caption.caption)
        objects = self._shown[image]
        similar_captions = []
        for neighbour in self._near[image]:
            text = most_similar(mentioned, self._categories_by_caption[neighbour], objects)
            if text:
                similar_captions.append(text)
        return tuple(similar_captions)


def _matching_question(pairs: _Pairs, caption: CocoCaption, where: str) -> Draft:
    """Return the question whether a caption fits the image.

    In a random half of the questions it is the image's own caption ("yes"), and in the others the caption of a
    similar image ("no"). Raises DataError if no image is similar.
    """
    gold = rng_for("coco-pairs", caption.id, "matches").randrange(2)  # 0 is "yes", 1 is "no"
    text: str | None
    if gold == 0:
        text = caption.caption.strip()
    else:
        text = None
        image_captions = pairs.own[caption.image_id]
        for other_caption in pairs.nearly_right(caption):
            if differs_from_all(other_caption, image_captions):
                text = other_caption
                break
    if text is None:
        raise DataError(
            f"{where}: no image is similar, so no caption nearly fits; is the split whole?"
        )
    question = QuestionDraft(
        wording.matching_question(text), options=wording.MATCHING_OPTIONS, gold=(gold,)
    )
    return _pair_draft(
        pairs, caption, where, question, answer_tags={"answer": question.options[gold]}
    )


def _caption_choice_question(pairs: _Pairs, caption: CocoCaption, where: str) -> Draft:
    """Return the question which caption fits the image. The wrong options are captions of similar images."""
    tiers = tuple((text,) for text in pairs.nearly_right(caption))
    gold = caption.caption.strip()
    other_captions = tuple(text for text in pairs.own[caption.image_id] if text != gold)
    question = QuestionDraft(
        wording.TEXT_QUESTION,
        texts=(gold, *other_captions),
        distractors=DistractorSpec(tiers=tiers),
    )
    return _pair_draft(pairs, caption, where, question, answer_tags={})


def _pair_draft(
    pairs: _Pairs,
    caption: CocoCaption,
    where: str,
    question: QuestionDraft,
    answer_tags: dict[str, str],
) -> Draft:
    """Return the draft of a question about a caption and its image. A sample of the questions is balanced by the answer."""
    return Draft(
        id=str(caption.id),
        rounds=(question,),
        images=(pairs.pictures[caption.image_id],),
        where=where,
        group=str(caption.image_id),
        answer_tags=answer_tags,
        stratum=answer_tags.get("answer", ""),
    )


# --- captions that nearly fit: those of images with distinct but similar objects (ReForm-Eval A.6) ------------------
# Captions are compared by the object categories that they name; `coco_words.toml` lists the other words that
# captions use for COCO's categories (a person may be a man, a woman or a surfer).


KeyT = TypeVar("KeyT", bound=Hashable)
Categories = frozenset[str]
"""Object categories, by name."""


@cache
def coco_words() -> dict[str, tuple[str, ...]]:
    """Return for each COCO category the other words that captions use for it."""
    return packaged_toml(
        "snellen.suites.reform_eval.readers", "coco_words.toml", dict[str, tuple[str, ...]]
    )


def category_finder(
    names: Iterable[str], words: Mapping[str, Sequence[str]]
) -> Callable[[str], Categories]:
    """Return a function that finds the object categories that a caption mentions.

    For example, it returns `{"person", "dog"}` for "A man walks his dogs". It compares whole words in lower case,
    singular and plural. A longer name takes precedence over a shorter one inside it, so that "hot dog" does not
    mention a dog.

    Args:
        names: Names of the categories.
        words: For each category, other words that captions use for it, such as `man` for `person`.
    """
    names_by_form: dict[str, str] = {}
    for name in names:
        for term in (name, *words.get(name, ())):
            singular = term.casefold()
            names_by_form[singular] = name
            names_by_form[plural(singular)] = name
    # Of two alternatives of a pattern, the first one that matches counts.
    longest_first = sorted(names_by_form, key=len, reverse=True)
    alternatives = "|".join(re.escape(form) for form in longest_first)
    pattern = re.compile(rf"\b(?:{alternatives})\b")

    def mentioned_categories(caption: str) -> Categories:
        forms = pattern.findall(caption.casefold())
        return frozenset(names_by_form[form] for form in forms)

    return mentioned_categories


def overlap(first: Categories, second: Categories) -> float:
    """Return how similar two sets of categories are: common categories / all categories of both (Jaccard), in [0, 1].

    0 if both are empty.
    """
    common = len(first & second)
    union = len(first) + len(second) - common
    return common / union if union else 0.0


class SimilarImages(Generic[KeyT]):
    """Finds the images that are most similar to an image, by the categories of objects that they show.

    A similar image must show at least one category that the image does not; otherwise all its captions might be
    true of the image. For speed, categories are bits of a number, and images with the same categories are compared
    only once. Similarities are those of `overlap`.
    """

    def __init__(self, categories: Mapping[KeyT, Categories]) -> None:
        """Represent the categories of each image as bits.

        Args:
            categories: Names of the categories that each image shows, by image.
        """
        bit_positions: dict[str, int] = {}  # of each category
        self._images_by_bits: dict[int, list[KeyT]] = {}
        self._bits: dict[KeyT, int] = {}
        for image, names in categories.items():
            bits = 0
            for name in names:
                position = bit_positions.setdefault(name, len(bit_positions))
                bits |= 1 << position
            self._images_by_bits.setdefault(bits, []).append(image)
            self._bits[image] = bits
        # Results of _tiers, by its arguments.
        self._tiers_by_arguments: dict[tuple[int, int], list[list[KeyT]]] = {}

    def nearest(self, key: KeyT, count: int, rng: random.Random) -> list[KeyT]:
        """Return the images that are most similar to an image, at most `count`, the most similar first.

        If several images are equally similar and not all of them are needed, some are drawn with `rng`.
        """
        neighbours: list[KeyT] = []
        for equally_similar in self._tiers(self._bits[key], count):
            missing = count - len(neighbours)
            neighbours += rng.sample(equally_similar, min(len(equally_similar), missing))
        return neighbours

    def _tiers(self, own_bits: int, count: int) -> list[list[KeyT]]:
        """Return images in groups of equal similarity to an image, the most similar group first.

        Similarity is the number of shared categories divided by the number of all categories of both images. Images
        that show nothing but categories of this image are left out. Groups are added until they have at least
        `count` images in total, or until there are no more.

        Args:
            own_bits: The categories of the image, one bit for each.
            count: How many images are needed.
        """
        if (own_bits, count) in self._tiers_by_arguments:
            return self._tiers_by_arguments[own_bits, count]
        bits_by_similarity: dict[float, list[int]] = {}
        for bits in self._images_by_bits:
            has_further_category = bits & ~own_bits != 0
            if has_further_category:
                similarity = (own_bits & bits).bit_count() / (own_bits | bits).bit_count()
                bits_by_similarity.setdefault(similarity, []).append(bits)

        tiers: list[list[KeyT]] = []
        missing = count
        for similarity in sorted(bits_by_similarity, reverse=True):
            if missing <= 0:
                break
            tier: list[KeyT] = []
            for bits in bits_by_similarity[similarity]:
                tier += self._images_by_bits[bits]
            tiers.append(tier)
            missing -= len(tier)
        self._tiers_by_arguments[own_bits, count] = tiers
        return tiers


def most_similar(
    gold: Categories, captions: Iterable[tuple[str, Categories]], categories: Categories
) -> str | None:
    """Return the caption of another image that is most similar to the correct caption, but wrong.

    Captions are similar if they mention the same categories. One that mentions only categories of the image might
    be true of it, so it is taken only if there is no other.

    Args:
        gold: Categories that the correct caption mentions.
        captions: The captions to choose from, each with the categories that it mentions.
        categories: Categories that the image shows.

    Returns:
        The caption; None if there are no captions.
    """
    ranked: list[tuple[bool, float, str]] = []
    for caption, mentioned in captions:
        mentions_absent_category = bool(mentioned - categories)
        ranked.append((mentions_absent_category, overlap(gold, mentioned), caption))
    if not ranked:
        return None
    _, _, best_caption = max(ranked, key=lambda entry: entry[:2])
    return best_caption


def differs_from_all(caption: str, own_captions: Collection[str]) -> bool:
    """Return whether a caption differs in meaning from each of an image's own captions."""
    return not any(same_answer(caption, own_caption) for own_caption in own_captions)


BOX_WIDTH = 2
"""Pixels of the box's line."""


class RefcocoParams(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "val"


class ReferringExpression(Struct, frozen=True):
    sent_id: int
    sent: str


class ReferredObject(Struct, frozen=True):
    """An object that is referred to, and how."""

    ref_id: int
    ann_id: int
    image_id: int
    category_id: int
    split: str
    sentences: tuple[ReferringExpression, ...]


def read_refcoco(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each referring expression of a split, in the order of the file."""
    chosen = read_params(params, RefcocoParams)
    path = locate_file(
        folder,
        "refcoco/refs(unc).p",
        "refcoco/refs(unc).json",
        "refs(unc).p",
        "refs(unc).json",
    )
    objects = read_instances(path.with_name("instances.json"), locate_images(folder, "train2014"))
    annotations: dict[int, CocoAnnotation] = {}
    for annotated in objects.by_image.values():
        for _, annotation in annotated:
            annotations[annotation.id] = annotation

    refs = [(where, ref) for where, ref in _read_references(path) if ref.split == chosen.split]
    for where, ref in refs:
        _check_reference(ref, objects, annotations, where)
    pools = _Pools(objects, [ref for _, ref in refs])
    for where, ref in refs:
        annotation = annotations[ref.ann_id]
        for number, sentence in enumerate(ref.sentences):
            sentence_where = f"{where}.sentences[{number}]"
            yield _expression_draft(objects, annotation, ref, sentence, pools, sentence_where)


def _read_references(path: Path) -> Iterator[tuple[str, ReferredObject]]:
    """Yield the objects that expressions such as "the left dog" refer to, each with its location for messages.

    They are read from the pickle file of the REFER dataset, or from a JSON file with the same content.
    """
    if path.suffix == ".json":
        yield from list_items(path, "refs", read_json(path, list[msgspec.Raw]), ReferredObject)
        return
    content = load_pickle(path)
    if not isinstance(content, list):
        raise DataError(f"{path}: holds no list of references; is it RefCOCO's file?")
    for number, item in enumerate(content):
        where = f"{path}: refs[{number}]"
        yield where, converted(item, ReferredObject, where)


def _check_reference(
    ref: ReferredObject, objects: CocoObjects, annotations: dict[int, CocoAnnotation], where: str
) -> None:
    """Raise DataError if a record of an object that is referred to cannot be used.

    It must have an annotation with the same image and category, and at least one expression.
    """
    annotation = annotations.get(ref.ann_id)
    if annotation is None:
        raise DataError(f"{where}: there is no annotation {ref.ann_id} in instances.json")
    if (annotation.image_id, annotation.category_id) != (ref.image_id, ref.category_id):
        raise DataError(
            f"{where}: the annotation {ref.ann_id} is of another image or category in instances.json"
        )
    if not ref.sentences:
        raise DataError(f"{where}: there is no expression")


class _Pools:
    """The referring expressions of each category, from which wrong options for objects of other categories are drawn."""

    def __init__(self, objects: CocoObjects, refs: list[ReferredObject]) -> None:
        """Collect the distinct expressions that refer to objects of each category."""
        self._objects = objects
        self._expressions: dict[int, dict[str, str]] = {}
        for ref in refs:
            for sentence in ref.sentences:
                self._expressions.setdefault(ref.category_id, {}).setdefault(
                    fold_answer(sentence.sent), sentence.sent
                )
        self._tiers: dict[int, tuple[tuple[str, ...], ...]] = {}

    def tiers(self, category: int) -> tuple[tuple[str, ...], ...]:
        """Return expressions for objects of other categories: first of the same super-category, then of all."""
        if category not in self._tiers:
            group = self._objects.categories[category].supercategory
            similar_categories = [
                other
                for other in self._expressions
                if self._objects.categories[other].supercategory == group
            ]
            self._tiers[category] = (
                self._other_texts(category, similar_categories),
                self._other_texts(category, list(self._expressions)),
            )
        return self._tiers[category]

    def _other_texts(self, category: int, categories: list[int]) -> tuple[str, ...]:
        """Return the expressions for objects of other categories that are not used for this category as well."""
        own_texts = self._expressions[category]
        texts: list[str] = []
        for other in categories:
            if other == category:
                continue
            for folded, text in self._expressions[other].items():
                if folded not in own_texts:
                    texts.append(text)
        return tuple(texts)


def _expression_draft(
    objects: CocoObjects,
    annotation: CocoAnnotation,
    ref: ReferredObject,
    sentence: ReferringExpression,
    pools: _Pools,
    where: str,
) -> Draft:
    """Return the question which expression describes the outlined object.

    All expressions for it are correct; expressions for objects of other categories are distractors.

    Args:
        objects: All objects, their classes and images.
        annotation: The object, with its box.
        ref: The object's expressions.
        sentence: The expression that is shown as the correct option.
        pools: The distractors by category.
        where: File and position, for error messages.
    """
    category = objects.categories[ref.category_id]
    texts = [sentence.sent]
    for expression in ref.sentences:
        if expression.sent != sentence.sent:
            texts.append(expression.sent)
    question = QuestionDraft(
        wording.EXPRESSION_QUESTION,
        texts=tuple(texts),
        distractors=DistractorSpec(tiers=pools.tiers(category.id)),
    )
    outline = Outline(annotation.bbox, width=BOX_WIDTH)
    return Draft(
        id=str(sentence.sent_id),
        rounds=(question,),
        images=(ImageSpec(objects.images[ref.image_id], outlines=(outline,)),),
        where=where,
        regions=(Region(annotation.bbox),),
        group=str(ref.image_id),
        answer_tags={"category": category.name, "supercategory": category.supercategory},
        stratum=category.name,
    )
