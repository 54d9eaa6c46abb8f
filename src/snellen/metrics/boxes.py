"""Boxes and points in replies: IoU, accuracy at IoU 0.5 (RefCOCO), a point within a box (ScreenSpot).

Golds and replies are in the same coordinates, which the entry declares and the question says (`readers.boxes`). Neither
IoU nor whether a point is in a box depends on which these are.
"""

from __future__ import annotations

from collections.abc import Sequence

from snellen.common.late import late_pattern
from snellen.errors import DataError
from snellen.metrics.declaration import Marks, read_rate_metric, share_row

Corners = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Point = tuple[float, float]
_NAME_BEFORE_NUMBER = late_pattern(r"[\"']?\b[A-Za-z_]\w*[\"']?\s*[:=]\s*")
_MARKUP_TAG = late_pattern(r"<[^<>]*?(?=\s\w+=|>)")
_NUMBER = r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?![\w%]|\.\d)"
_NUMBER_GROUP = late_pattern(rf"{_NUMBER}(?:[\s,;()\[\]\"']+{_NUMBER})*")
_SINGLE_NUMBER = late_pattern(_NUMBER)
_MIN_IOU = 0.5


def read_box(text: str) -> Corners | None:
    """Return the box that the last group of four numbers in a text gives: `[1, 2, 3, 4]`, `(1,2),(3,4)`, `"x1": 1, ...`.

    The numbers are two opposite corners. The result is (left, top, right, bottom); None if there is no such group.
    """
    for numbers in reversed(_number_groups(text)):
        if len(numbers) != 4:
            continue
        first_x, first_y, second_x, second_y = numbers
        left = min(first_x, second_x)
        top = min(first_y, second_y)
        right = max(first_x, second_x)
        bottom = max(first_y, second_y)
        return left, top, right, bottom
    return None


def read_point(text: str) -> Point | None:
    """Return the last point in a text as (x, y): a group of two numbers, or the centre of a box, a group of four.

    None if the text has no group of two or four numbers.
    """
    for numbers in reversed(_number_groups(text)):
        if len(numbers) == 2:
            x, y = numbers
            return x, y
        if len(numbers) == 4:
            left, top, right, bottom = numbers
            return (left + right) / 2, (top + bottom) / 2
    return None


def _number_groups(text: str) -> list[list[float]]:
    """Return the groups of numbers in a text: `[1, 2, 3, 4]` and `(5, 6)` with a word between them are two groups.

    Numbers belong to the same group if there are no words between them. Names such as `x=` and `"bbox_2d":` and tags
    such as `<box>` do not separate numbers.
    """
    without_tags = _MARKUP_TAG.sub(" ", text).replace(">", " ")
    without_names = _NAME_BEFORE_NUMBER.sub(" ", without_tags)
    groups = []
    for group in _NUMBER_GROUP.finditer(without_names):
        groups.append([float(number) for number in _SINGLE_NUMBER.findall(group[0])])
    return groups


def iou(first: Corners, second: Corners) -> float:
    """Return the intersection over union of two boxes, in [0, 1]; 0 if both are empty.

    Args:
        first: The corners of a box as (left, top, right, bottom).
        second: The corners of another box.
    """
    first_left, first_top, first_right, first_bottom = first
    second_left, second_top, second_right, second_bottom = second
    width = min(first_right, second_right) - max(first_left, second_left)
    height = min(first_bottom, second_bottom) - max(first_top, second_top)
    intersection = max(width, 0.0) * max(height, 0.0)
    union = _area(first) + _area(second) - intersection
    return intersection / union if union > 0 else 0.0


def _area(box: Corners) -> float:
    left, top, right, bottom = box
    return (right - left) * (bottom - top)


def box_marks(reply: str, references: Sequence[str]) -> Marks:
    """Compare the box in a reply with the references (boxes as text).

    Returns:
        1.0 if the largest intersection over union with a reference is at least 0.5, else 0.0; and this largest value.
        None if the reply has no box.
    """
    golds = _gold_boxes(references)
    box = read_box(reply)
    if box is None:
        return None
    best = max(iou(box, gold) for gold in golds)
    return float(best >= _MIN_IOU), best


def point_marks(reply: str, references: Sequence[str]) -> Marks:
    """Return (1.0,) if the point in a reply is in one of the reference boxes or on its edge, else (0.0,).

    None if the reply has no point. The reference boxes are texts such as "[10, 20, 50, 60]".
    """
    boxes = _gold_boxes(references)
    point = read_point(reply)
    if point is None:
        return None
    x, y = point
    for left, top, right, bottom in boxes:
        if left <= x <= right and top <= y <= bottom:
            return (1.0,)
    return (0.0,)


def _gold_boxes(references: Sequence[str]) -> list[Corners]:
    """Return the reference boxes as numbers. Raises DataError if there is none, or one is not a box of four numbers."""
    boxes = []
    for reference in references:
        box = read_box(reference)
        if box is not None:
            boxes.append(box)
    if not boxes or len(boxes) < len(references):
        raise DataError(f"gold {' / '.join(references)!r} is not a box of four numbers")
    return boxes


BOXES = read_rate_metric(
    "box",
    "boxes: share with an IoU of at least 0.5, mean IoU, and how many replies have no box",
    [
        share_row("box_accuracy", "accuracy at IoU 0.5", interval="linearised", unparsed="wrong"),
        share_row("box_iou", "IoU", interval="linearised", scale="iou", unparsed="wrong"),
    ],
    box_marks,
)
POINTS = read_rate_metric(
    "point",
    "points: share within the box (of a reply with a box, its centre), and how many replies have no point",
    [share_row("point_accuracy", interval="linearised", unparsed="wrong")],
    point_marks,
)
