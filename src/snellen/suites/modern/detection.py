"""All objects of some kinds in an image, as boxes: ODinW-13 in the plane, SUN RGB-D in space, by average precision.

Replies have no confidences. As the makers of Qwen3-VL do, every box counts with confidence 1, in the order of the images
and, within one, of the reply (QwenLM/Qwen3-VL, evaluation/ODinW-13; technical report, arXiv:2511.21631, section 5.5).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import stored_size
from snellen.common.drafts import Draft, ImageSpec, LazyFrames, image_bytes, read_params
from snellen.errors import DataError
from snellen.formats.json_files import JSON_FAULTS
from snellen.metrics.boxes import Corners, iou
from snellen.metrics.declaration import MetricRow, share_row
from snellen.metrics.question_counts import Counts, QuestionCounts, tally_of
from snellen.metrics.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, why_unanswered
from snellen.metrics.scoring_context import ScoringContext
from snellen.readers.mapped import read_hub_rows
from snellen.scoring.grouped import GroupedMetric

Coordinates = Literal["1000", "1", "pixels"]
Box = tuple[float, ...]
"""Left, top, right and bottom; or centre (x, y, z), size (x, y, z) and roll, pitch and yaw in radians."""
Overlap = Callable[[Box, Box], float]
"""Function of two boxes that returns their intersection over union."""
NOTHING = '{"objects": []}'
"""The reply that says that there is no object. It has words, so that an accepted text is never empty."""
GROUP_TAG = "dataset"
"""Tag of the dataset to which a category belongs; all questions are of one where it is missing."""
_BOX_NAMES = ("bbox_2d", "bbox_3d", "bbox", "box_2d", "box_3d", "box")
_LABEL_NAMES = ("label", "class", "category", "name", "class_name")
_ASKED = {
    "1000": "where the image's left and top are 0 and its right and bottom 1000",
    "1": "where the image's left and top are 0 and its right and bottom 1",
    "pixels": "in pixels of the image, which is {width} wide and {height} high",
}
_RECALLS = np.linspace(0.0, 1.0, 101)
"""Recalls at which precision is averaged (COCO)."""
_MOST_BOXES = 1000
"""Boxes of a category that count in a reply; further ones are ignored, as in the makers' code."""


class Found(Struct, frozen=True):
    """An object: its box and the name of its category in lower case."""

    box: Box
    label: str


# --- reading the dataset ----------------------------------------------------------------------------------------------


class DetectionParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How replies are to give boxes."""

    space: Literal["plane", "space"] = "plane"
    """Boxes in the plane of the image, or in space in front of the camera."""
    coordinates: Coordinates = "1000"
    """Along either side from 0 to 1000 or to 1, or in pixels of the image as it is stored; only in the plane."""


def json_list(texts: list[str]) -> list[str]:
    """Write a list of texts as one JSON text, so that it fits into a template. An empty list is `[]`."""
    return [json.dumps(texts, ensure_ascii=False)]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts that ask for all objects. The mapping's question is a JSON list of categories, its answers are the
    lists of boxes and of labels. Raises DataError."""
    mapping = dict(params)
    form = read_params(mapping.pop("detection", {}), DetectionParams)
    for draft in read_hub_rows(mapping, folder):
        yield _reword_with_boxes(draft, form)


def _reword_with_boxes(draft: Draft, form: DetectionParams) -> Draft:
    """Return a question that asks for boxes, with its instructions and a correct reply as its reference text.

    Args:
        draft: The question. Its text is a JSON list of categories, and its answers are the boxes and the labels.
        form: Which boxes replies have: in the image or in space, and in which coordinates.
    """
    (question,) = draft.rounds
    categories = ", ".join(json.loads(question.question))
    boxes, labels = _boxes_and_labels(question.texts, form, draft.where)
    if form.space == "space":
        asked = (
            f"Locate the {categories} in the provided image and output their positions and dimensions using 3D "
            "bounding boxes.\n"
            'Answer with JSON alone, a list of objects as {"bbox_3d": [x_center, y_center, z_center, x_size, y_size, '
            'z_size, roll, pitch, yaw], "label": "category"}, in metres and radians as the camera sees them: x to '
            "the right, y down, z forward."
        )
        name = "bbox_3d"
    else:
        file = draft.images[0]
        if isinstance(file, (ImageSpec, LazyFrames)):
            raise DataError(f"{draft.where}: a box in a crop of an image or in a clip")
        width, height, _ = stored_size(image_bytes(file, draft.where), draft.where)
        if form.coordinates != "pixels":
            side = float(form.coordinates)
            scales = (side / width, side / height)
            boxes = [_scaled(box, scales) for box in boxes]
        named = _ASKED[form.coordinates].format(width=width, height=height)
        asked = (
            f"Locate every instance that belongs to the following categories: '{categories}'. "
            "Report bbox coordinates in JSON format.\n"
            'Answer with JSON alone, a list of objects as {"bbox_2d": [left, top, right, bottom], "label": '
            f'"category"}}, {named}.'
        )
        name = "bbox_2d"
    objects = [{name: list(box), "label": label} for box, label in zip(boxes, labels, strict=True)]
    gold = json.dumps(objects, ensure_ascii=False) if objects else NOTHING
    return replace(draft, rounds=(replace(question, question=asked, texts=(gold,)),))


def _boxes_and_labels(
    texts: Sequence[str], form: DetectionParams, where: str
) -> tuple[list[Box], list[str]]:
    """Return the boxes of a row of the dataset and the label of each.

    Args:
        texts: Two JSON lists as texts, the boxes and the labels. It is a single text if both lists are empty,
            because a dataset keeps equal answers once.
        form: Whether a box has 4 numbers (in the image) or 9 (in space).
        where: File and row, for messages.

    Raises:
        DataError: Their numbers differ, a box has another number of values, or a box has no size.
    """
    lists: list[list[str]] = [json.loads(text) for text in texts]
    if len(lists) == 1:  # two empty lists, because answers that are equal count once
        lists *= 2
    written_boxes, labels = lists
    length = 9 if form.space == "space" else 4
    boxes: list[Box] = [tuple(json.loads(text)) for text in written_boxes]
    if len(boxes) != len(labels) or any(len(box) != length for box in boxes):
        raise DataError(
            f"{where}: {len(boxes)} boxes and {len(labels)} labels; each box needs a label and {length} numbers"
        )
    for box in boxes:
        sizes = box[3:6] if form.space == "space" else (box[2] - box[0], box[3] - box[1])
        if min(sizes) <= 0:
            expected = "center, size and angles" if length == 9 else "left, top, right, bottom"
            raise DataError(f"{where}: the box {list(box)} is not {expected}: it has no size")
    return boxes, labels


def _scaled(box: Box, scales: tuple[float, float]) -> Box:
    """Return a box in the image with its x and y multiplied by a factor each, rounded to three decimals."""
    # The numbers are x and y in turns.
    return tuple(round(number * scales[index % 2], 3) for index, number in enumerate(box))


# --- reading replies --------------------------------------------------------------------------------------------------


def read_detections(reply: str, length: int) -> list[Found]:
    """Return the objects that a reply names, in the order of the reply.

    An object is a JSON object with a box and a label, anywhere in the text. Objects that are cut off, or have no
    label, are left out.

    Args:
        reply: The reply.
        length: How many numbers a box has: 4 in the image, 9 in space. In space, a box of 7 numbers is read, too;
            its last number is the yaw, and the other two angles are 0.

    Examples:
        >>> read_detections('[{"bbox_2d": [1, 2, 3, 4], "label": "Dog"}]', 4)
        [Found(box=(1.0, 2.0, 3.0, 4.0), label='dog')]
    """
    objects: list[Found] = []
    for text in _braced(reply):
        try:
            content = msgspec.json.decode(text)
        except JSON_FAULTS:
            continue
        objects.extend(_objects_in(content, length))
    return objects


def has_objects(reply: str, length: int) -> bool:
    """Return whether a reply names objects, or says by an empty list that there are none."""
    return "[]" in reply.replace(" ", "") or bool(read_detections(reply, length))


def _braced(text: str) -> Iterator[str]:
    """Yield each outermost `{...}` of a text, such as `{"a": {"b": 1}}`. Braces inside quoted texts are ignored."""
    start = -1
    depth = 0
    quoted = escaped = False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif depth and character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character == "{":
            start = index if depth == 0 else start
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                yield text[start : index + 1]


def _objects_in(content: Any, length: int) -> Iterator[Found]:
    """Yield the objects (a box and its label) anywhere in decoded JSON, in their order.

    Lists, and JSON objects without a box, are searched for further ones inside. A box without a label is left out.
    """
    if isinstance(content, list):
        for item in content:
            yield from _objects_in(item, length)
        return
    if not isinstance(content, dict):
        return
    numbers = _first_of(content, _BOX_NAMES)
    box = _box_of(numbers, length)
    if box is None:
        for item in content.values():
            yield from _objects_in(item, length)
        return
    label = _first_of(content, _LABEL_NAMES)
    if isinstance(label, str):
        yield Found(box, label.strip().lower())


def _first_of(content: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((content[name] for name in names if name in content), None)


def _box_of(numbers: Any, length: int) -> Box | None:
    """Return a list of numbers as a box; None if it is no list of numbers, or has another length.

    If boxes have 9 numbers, one of 7 is accepted as well: its last number is the yaw, and roll and pitch are 0.
    """
    if not isinstance(numbers, list):
        return None
    if not all(isinstance(number, (int, float)) for number in numbers):
        return None
    box = tuple(float(number) for number in numbers)
    if length == 9 and len(box) == 7:
        return (*box[:6], 0.0, 0.0, box[6])
    return box if len(box) == length else None


# --- boxes in space ---------------------------------------------------------------------------------------------------


def iou_in_space(first: Box, second: Box) -> float:
    """Return the intersection over union of two boxes that are turned about the vertical axis, in [0, 1].

    Roll and pitch are ignored, as in lmms-eval (75571cfe, lmms_eval/tasks/sunrgbd/utils.py). A box with a size of zero or
    less has no overlap.

    Args:
        first: Centre (x, y, z), sizes (x, y, z), and the angles roll, pitch and yaw.
        second: Likewise.
    """
    first_sizes = first[3:6]
    second_sizes = second[3:6]
    if min(*first_sizes, *second_sizes) <= 0:
        return 0.0
    if not all(math.isfinite(number) for number in (*first, *second)):
        return 0.0
    # Along the vertical axis y, a box extends half its height in both directions from its centre.
    first_half_height = first[4] / 2
    second_half_height = second[4] / 2
    lowest_shared_y = max(first[1] - first_half_height, second[1] - second_half_height)
    highest_shared_y = min(first[1] + first_half_height, second[1] + second_half_height)
    if highest_shared_y <= lowest_shared_y:
        return 0.0
    shared_area = _shared_area(_ground_corners(first), _ground_corners(second))
    intersection = shared_area * (highest_shared_y - lowest_shared_y)
    union = math.prod(first_sizes) + math.prod(second_sizes) - intersection
    return intersection / union


def _ground_corners(box: Box) -> list[tuple[float, float]]:
    """Return the corners (x, z) of a box on the ground, counterclockwise."""
    center_x, _, center_z, size_x, _, size_z, _, _, yaw = box
    cosine = math.cos(yaw)
    sine = math.sin(yaw)
    corners: list[tuple[float, float]] = []
    for side_x, side_z in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        x = side_x * size_x / 2
        z = side_z * size_z / 2
        corners.append((center_x + cosine * x - sine * z, center_z + sine * x + cosine * z))
    return corners


def _shared_area(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> float:
    """Return the area that two convex polygons share (Sutherland and Hodgman 1974). Corners run counterclockwise."""
    corners = first
    for start, end in zip(second, (*second[1:], second[0]), strict=True):
        kept: list[tuple[float, float]] = []
        previous = corners[-1] if corners else None
        for corner in corners:
            side = _side_of(corner, start, end)
            previous_side = _side_of(previous, start, end) if previous else 0.0
            if previous is not None and side * previous_side < 0:
                share = previous_side / (previous_side - side)
                kept.append(
                    (
                        previous[0] + share * (corner[0] - previous[0]),
                        previous[1] + share * (corner[1] - previous[1]),
                    )
                )
            if side >= 0:
                kept.append(corner)
            previous = corner
        corners = kept
    doubled = 0.0
    for (x, z), (next_x, next_z) in zip(corners, (*corners[1:], *corners[:1]), strict=True):
        doubled += x * next_z - next_x * z
    return abs(doubled) / 2


def _side_of(
    point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]
) -> float:
    """Return on which side of a line a point is, by the sign of the result (twice the area of the triangle that they
    make).

    Args:
        point: The point, as x and z.
        start: A point on the line.
        end: Another point on the line, which gives its direction.

    Returns:
        Above 0 to the left of the line, below 0 to the right, and 0 on it.
    """
    line_x = end[0] - start[0]
    line_z = end[1] - start[1]
    offset_x = point[0] - start[0]
    offset_z = point[1] - start[1]
    return line_x * offset_z - line_z * offset_x


# --- average precision ------------------------------------------------------------------------------------------------


class Matches(Struct, frozen=True):
    """Which boxes of a reply hit an object, for the boxes and objects of one category in one image."""

    hits: np.ndarray
    """Whether each box hits an object at each threshold; shape (thresholds, boxes)."""
    n_objects: int


def match_boxes(
    predicted: Sequence[Box], objects: Sequence[Box], overlap: Overlap, thresholds: Sequence[float]
) -> Matches:
    """Decide which boxes of a reply hit an object, for each threshold of overlap.

    The boxes are taken in the order of the reply. Each is compared with the objects that no earlier box has hit,
    and hits the one that it overlaps most if the overlap reaches the threshold. So every object is hit at most
    once.

    Args:
        predicted: The boxes of the reply.
        objects: The true boxes of the objects.
        overlap: Function that returns the overlap of two boxes, in [0, 1].
        thresholds: The least overlaps of a hit, one or more.

    Returns:
        The hits, shape (thresholds, boxes), and the number of objects. Without objects nothing is a hit.
    """
    hits = np.zeros((len(thresholds), len(predicted)), dtype=bool)
    if not objects:
        return Matches(hits, 0)
    overlaps = np.zeros((len(predicted), len(objects)))
    for index, box in enumerate(predicted):
        for object_index, object_box in enumerate(objects):
            overlaps[index, object_index] = overlap(box, object_box)
    for row, threshold in enumerate(thresholds):
        is_free = np.ones(len(objects), dtype=bool)
        for index in range(len(predicted)):
            free_overlaps = np.where(is_free, overlaps[index], -1.0)
            best = int(free_overlaps.argmax())
            if free_overlaps[best] >= threshold:
                hits[row, index] = True
                is_free[best] = False
    return Matches(hits, len(objects))


def average_precision(hits: np.ndarray, n_objects: int) -> np.ndarray:
    """Return the average precision at each threshold: the mean over 101 recalls of the best precision at that recall
    or above (COCO).

    Args:
        hits: Whether each box of a category hits an object, in order; shape (thresholds, boxes).
        n_objects: How many objects there are.

    Returns:
        Numbers in [0, 1], shape (thresholds,).

    Examples:
        >>> average_precision(np.array([[True, False, True]]), 2).round(3).tolist()
        [0.835]
    """
    n_boxes = hits.shape[1]
    if not n_boxes:
        return np.zeros(len(hits))
    true_positives = np.cumsum(hits, axis=1)
    recalls = true_positives / n_objects
    precisions = true_positives / np.arange(1, n_boxes + 1)
    best_from_here = np.maximum.accumulate(precisions[:, ::-1], axis=1)[:, ::-1]
    means = np.empty(len(hits))
    for row, best in enumerate(best_from_here):
        indexes = np.searchsorted(recalls[row], _RECALLS, side="left")
        reached = indexes[indexes < n_boxes]
        means[row] = best[reached].sum() / len(_RECALLS)
    return means


class _Category:
    """All boxes and objects of one category of a dataset, such as `dog`, collected over all images."""

    def __init__(self) -> None:
        self._hits: list[np.ndarray] = []
        self._owners: list[np.ndarray] = []
        self.n_objects: dict[int, int] = {}
        """How many objects each image has that has a box or an object of the category."""

    def add(self, image: int, matches: Matches) -> None:
        """Add the matches of one image."""
        self._hits.append(matches.hits)
        self._owners.append(np.full(matches.hits.shape[1], image))
        self.n_objects[image] = matches.n_objects

    def precisions(self) -> tuple[np.ndarray | None, dict[int, np.ndarray | None]]:
        """Return the average precision of the category over all images, and what it would be if an image were left
        out.

        Returns:
            The average precision at each threshold, shape (thresholds,), and the same by the index of the image
            that is left out. A value is None if no object is left.
        """
        hits = np.concatenate(self._hits, axis=1)
        owners = np.concatenate(self._owners)
        total = sum(self.n_objects.values())
        without: dict[int, np.ndarray | None] = {}
        for image, n_objects in self.n_objects.items():
            remaining = total - n_objects
            kept = hits[:, owners != image]
            without[image] = average_precision(kept, remaining) if remaining else None
        return average_precision(hits, total) if total else None, without


class MeanAveragePrecision(GroupedMetric, frozen=True, kw_only=True):
    """Mean average precision (mAP): the average precision of each category, averaged over the categories of a dataset,
    and then over datasets.

    It is not a mean over questions. For a confidence interval, each question gets a number nevertheless: the value,
    plus how much the value falls if the question is left out (jackknife). The mean of these numbers is the value,
    and their spread gives its interval.
    """

    length: int
    """How many numbers a box has."""
    overlap: Overlap
    thresholds: tuple[float, ...]
    rows_of: Callable[[np.ndarray], Sequence[float]]
    """Function of the values at the thresholds that returns those of the rows."""

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Match the boxes of all replies with the objects, and return the counts of each question.

        A question whose reply will never arrive counts as one whose reply has no boxes.
        """
        counted = [question.missing_unbiased_as_wrong for question in questions]
        countable = [question for question in counted if _why_not_countable(question) is None]
        try:
            counts = iter(self._counts(countable))
        except DataError as error:
            fault = Unscored("metric undefined", str(error))
            return [tally_of(question, context.metric, fault) for question in counted]
        tallies: list[QuestionCounts] = []
        for question in counted:
            absence = _why_not_countable(question)
            tallies.append(tally_of(question, context.metric, absence or next(counts)))
        return tallies

    def _counts(self, questions: Sequence[AskedQuestion]) -> list[Counts]:
        """Return the counts of each question: its number for each row of results, whether no box could be read, and
        1.0.

        A question may be asked several times in different wordings (presentations). The first presentations of all
        questions make one value of the metric, the second ones another, and so on; the counts of a question are
        averaged over its presentations.
        """
        by_question: list[list[list[float]]] = [[] for _ in questions]
        n_presentations = max(
            (len(question.answered_unbiased) for question in questions), default=0
        )
        for presentation in range(n_presentations):
            members = [
                index
                for index, question in enumerate(questions)
                if presentation < len(question.answered_unbiased)
            ]
            categories = self._match_all([questions[index] for index in members], presentation)
            for index, shares in zip(members, self._shares(categories, len(members)), strict=True):
                prediction = questions[index].answered_unbiased[presentation]
                is_read = has_objects(prediction.text or "", self.length)
                by_question[index].append([*shares, float(not is_read), 1.0])
        return [tuple(np.mean(rows, axis=0).tolist()) for rows in by_question]

    def _match_all(
        self, questions: Sequence[AskedQuestion], presentation: int
    ) -> dict[tuple[str, str], _Category]:
        """Match the boxes in the replies of one presentation with the objects.

        Args:
            questions: The questions, all of which have a reply in this presentation.
            presentation: The index of the presentation.

        Returns:
            The matches by (name of the dataset, label).
        """
        categories: dict[tuple[str, str], _Category] = defaultdict(_Category)
        for index, question in enumerate(questions):
            dataset = question.sample.tags.get(GROUP_TAG, "")
            reply = question.answered_unbiased[presentation].text or ""
            found = _by_label(read_detections(reply, self.length))
            wanted = _by_label(_objects_of(question, self.length))
            for label in found.keys() | wanted.keys():
                category = categories[dataset, label]
                matches = match_boxes(
                    found.get(label, [])[:_MOST_BOXES],
                    wanted.get(label, []),
                    self.overlap,
                    self.thresholds,
                )
                category.add(index, matches)
        return categories

    def _shares(
        self, categories: Mapping[tuple[str, str], _Category], n_questions: int
    ) -> list[np.ndarray]:
        """Return for each question the value of the metric plus the question's influence on it (see the class).

        Args:
            categories: The matches by (dataset, label).
            n_questions: The number of questions.

        Returns:
            For each question one number per row of results.

        Raises:
            DataError: No question has an object, so there is no value.
        """
        precisions: dict[tuple[str, str], np.ndarray | None] = {}
        changed: dict[int, dict[tuple[str, str], np.ndarray | None]] = defaultdict(dict)
        for key, category in categories.items():
            precisions[key], without = category.precisions()
            for image, precision in without.items():
                changed[image][key] = precision
        value = self._mean(precisions)
        if value is None:
            raise DataError("no image that was asked has an object")
        left_out: list[np.ndarray] = []
        for index in range(n_questions):
            without = self._mean({**precisions, **changed[index]}) if index in changed else value
            left_out.append(value if without is None else without)
        mean_left_out = np.mean(left_out, axis=0)
        return [value + (n_questions - 1) * (mean_left_out - row) for row in left_out]

    def _mean(self, precisions: Mapping[tuple[str, str], np.ndarray | None]) -> np.ndarray | None:
        """Average over the categories of each dataset, then over datasets, and return the values of the rows of
        results.

        Args:
            precisions: By (dataset, label), the average precision at each threshold; None for a category without
                objects.

        Returns:
            One number per row; None if no category has an object.
        """
        by_dataset: dict[str, list[np.ndarray]] = defaultdict(list)
        for (dataset, _), precision in precisions.items():
            if precision is not None:
                by_dataset[dataset].append(precision)
        if not by_dataset:
            return None
        means = [np.mean(values, axis=0) for values in by_dataset.values()]
        return np.array(self.rows_of(np.mean(means, axis=0)))


def _why_not_countable(question: AskedQuestion) -> Unscored | None:
    """Return why a question cannot be counted (no reply, or a hidden answer); None if it can."""
    if not question.answered_unbiased:
        return why_unanswered(question)
    if question.answer is None:
        return HIDDEN_ANSWER
    return None


def _objects_of(question: AskedQuestion, length: int) -> list[Found]:
    """Return the true objects of a question, which are stored as a JSON list in its only reference text.

    Raises:
        DataError: It has several reference texts, or the text is not such a list.
    """
    if len(question.reference_answers) != 1:
        raise DataError(
            f"{question.label}: {len(question.reference_answers)} accepted answers, but boxes are compared with one "
            "JSON list of all objects; leave one answer"
        )
    [gold] = question.reference_answers
    objects = read_detections(gold, length)
    if not has_objects(gold, length):
        raise DataError(
            f"{question.label}: the reference {gold[:60]!r} is not a JSON list of boxes of {length} numbers with labels"
        )
    return objects


def _by_label(objects: Sequence[Found]) -> dict[str, list[Box]]:
    boxes: dict[str, list[Box]] = defaultdict(list)
    for found in objects:
        boxes[found.label].append(found.box)
    return boxes


def _iou_in_plane(first: Box, second: Box) -> float:
    return iou(_corners(first), _corners(second))


def _corners(box: Box) -> Corners:
    left, top, right, bottom = box
    return left, top, right, bottom


def _mean_of_sums(sums: Counts) -> tuple[float, ...]:
    *totals, n_questions = sums
    return tuple(total / n_questions for total in totals)


def _map_row(name: str, title: str) -> MetricRow:
    return share_row(name, title, interval="linearised", sliced=False, unparsed="wrong")


def _unread_row(name: str) -> MetricRow:
    return share_row(
        name,
        interval="linearised",
        better="lower",
        scale="",
        unparsed="counted",
        sliced=False,
    )


DETECTION = MeanAveragePrecision(
    description="boxes of all objects: mean average precision over categories and datasets, IoU 0.5 to 0.95 (ODinW-13), and how many replies have none",
    rows=(
        _map_row("detection_map", "mAP"),
        _map_row("detection_map_50", "mAP at IoU 0.5"),
        _map_row("detection_map_75", "mAP at IoU 0.75"),
        _unread_row("detection_unparsed_rate"),
    ),
    compute=_mean_of_sums,
    length=4,
    overlap=_iou_in_plane,
    thresholds=tuple(np.linspace(0.5, 0.95, 10).tolist()),
    rows_of=lambda values: (values.mean(), values[0], values[5]),
)
DETECTION_IN_SPACE = MeanAveragePrecision(
    description="boxes in space of all objects: mean average precision over categories at IoU 0.15, 0.25 and 0.5 (Omni3D), and how many replies have none",
    rows=(
        _map_row("space_map_15", "mAP in space at IoU 0.15"),
        _map_row("space_map_25", "mAP in space at IoU 0.25"),
        _map_row("space_map_50", "mAP in space at IoU 0.5"),
        _unread_row("space_unparsed_rate"),
    ),
    compute=_mean_of_sums,
    length=9,
    overlap=iou_in_space,
    thresholds=(0.15, 0.25, 0.5),
    rows_of=lambda values: values.tolist(),
)
