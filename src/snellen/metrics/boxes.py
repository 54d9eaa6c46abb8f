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
_KEY = late_pattern(r"[\"']?\b[A-Za-z_]\w*[\"']?\s*[:=]\s*")
_TAG = late_pattern(r"<[^<>]*?(?=\s\w+=|>)")
_NUMBER = r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?![\w%]|\.\d)"
_RUN = late_pattern(rf"{_NUMBER}(?:[\s,;()\[\]\"']+{_NUMBER})*")
_FIGURE = late_pattern(_NUMBER)
_ACCEPTED = 0.5


def read_box(text: str) -> Corners | None:
    """The last four numbers of a text that stand together: `[1, 2, 3, 4]`, `(1,2),(3,4)`, `"x1": 1, "y1": 2, ...`.

    Corners in any order: left and top are the smaller ones. None where there are no four.
    """
    corners = next((run for run in reversed(_runs(text)) if len(run) == 4), None)
    if corners is None:
        return None
    first_x, first_y, second_x, second_y = corners
    return (
        min(first_x, second_x),
        min(first_y, second_y),
        max(first_x, second_x),
        max(first_y, second_y),
    )


def read_point(text: str) -> Point | None:
    """The last two numbers of a text that stand together, or the centre of its last box; None without either."""
    last = next((run for run in reversed(_runs(text)) if len(run) in (2, 4)), None)
    if last is None:
        return None
    return (
        (last[0], last[1]) if len(last) == 2 else ((last[0] + last[2]) / 2, (last[1] + last[3]) / 2)
    )


def _runs(text: str) -> list[list[float]]:
    """Return the groups of numbers in a text.

    The numbers of a group have no words between them but names, as in `x=` and `"bbox_2d":`, and tags.
    """
    without_tags = _TAG.sub(" ", text).replace(">", " ")
    without_names = _KEY.sub(" ", without_tags)
    groups = []
    for group in _RUN.finditer(without_names):
        groups.append([float(number) for number in _FIGURE.findall(group[0])])
    return groups


def iou(first: Corners, second: Corners) -> float:
    """Intersection over union of two boxes, in [0, 1]; 0 where both are empty."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    common = max(width, 0.0) * max(height, 0.0)
    union = _area(first) + _area(second) - common
    return common / union if union > 0 else 0.0


def _area(box: Corners) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def box_marks(reply: str, references: Sequence[str]) -> Marks:
    """Whether the IoU of the reply's box with the best gold is at least 0.5, and that IoU; None without a box."""
    golds = _gold_boxes(references)
    box = read_box(reply)
    if box is None:
        return None
    best = max(iou(box, gold) for gold in golds)
    return float(best >= _ACCEPTED), best


def point_marks(reply: str, references: Sequence[str]) -> Marks:
    """Whether the reply's point lies in a gold box, its edge included; None without a point."""
    golds = _gold_boxes(references)
    point = read_point(reply)
    if point is None:
        return None
    x, y = point
    return (float(any(gold[0] <= x <= gold[2] and gold[1] <= y <= gold[3] for gold in golds)),)


def _gold_boxes(references: Sequence[str]) -> list[Corners]:
    """Return the boxes that the references are. Raises DataError if one is none."""
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
