"""Standard deviation of the accuracy over prompt templates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from snellen.metrics.declaration import Metric, share_row
from snellen.records import Estimate

TEMPLATE_DEVIATION = Metric(
    description="standard deviation of the accuracy over templates",
    rows=(
        share_row(
            "template_deviation",
            "accuracy's standard deviation over templates",
            better="lower",
            scale="",
            interval="none",
            unparsed="wrong",
        ),
    ),
)


def template_deviation(correct_by_template: Mapping[str, Sequence[float]]) -> Estimate:
    """Estimate the standard deviation of the accuracy over prompt templates.

    Args:
        correct_by_template: For each template, 1.0 for each prompt that was answered correctly and 0.0 for the others.

    Returns:
        The sample standard deviation of the accuracies. It has no interval, because a few templates are too few for a
        useful one. It is above 0 by chance even if templates make no difference. `n` is the number of prompts of the
        template that has the fewest.

    Examples:
        >>> template_deviation({"a": [1.0, 1.0], "b": [1.0, 0.0], "c": [0.0, 0.0]}).value
        0.5
    """
    accuracies: list[float] = []
    for values in correct_by_template.values():
        if values:
            accuracies.append(math.fsum(values) / len(values))
    fewest = min(map(len, correct_by_template.values()), default=0)
    if len(accuracies) < 2:
        return Estimate(value=None, stderr=None, low=None, high=None, n=fewest)
    return Estimate(value=statistics.stdev(accuracies), stderr=None, low=None, high=None, n=fewest)
