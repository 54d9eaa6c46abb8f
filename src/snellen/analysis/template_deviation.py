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


def template_deviation(rights: Mapping[str, Sequence[float]]) -> Estimate:
    """Estimate the standard deviation of the accuracy over prompt templates.

    Args:
        rights: For each template, 1.0 for each presentation that was answered correctly and 0.0 for the others.

    Returns:
        The sample standard deviation of the accuracies, without an interval: of few templates there is none worth
        giving. It is above 0 by chance even if templates make no difference. `n` is the number of presentations of
        the template that was shown least.

    Examples:
        >>> template_deviation({"a": [1.0, 1.0], "b": [1.0, 0.0], "c": [0.0, 0.0]}).value
        0.5
    """
    accuracies = [math.fsum(values) / len(values) for values in rights.values() if values]
    n = min(map(len, rights.values()), default=0)
    if len(accuracies) < 2:
        return Estimate(None, None, None, None, n)
    return Estimate(statistics.stdev(accuracies), None, None, None, n)
