"""Values of single presentations: 1 if the chosen option is correct, 0 if it is not."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.records import Prediction
from snellen.scoring.scored_run import ScoredBenchmark


def scored_predictions(scored: ScoredBenchmark) -> Iterator[tuple[Prediction, float]]:
    """Yield each answered presentation with known ground truth, and its value (`value_of`).

    Examples:
        >>> from snellen.plugin_api import score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [scored] = score_run(results.runs[0].folder, sn.ScoringSpec()).benchmarks
        >>> [value for _, value in scored_predictions(scored)]
        [1.0, 1.0, 1.0, 1.0]
    """
    for prediction in scored.predictions:
        value = value_of(scored, prediction)
        if value is not None:
            yield prediction, value


def value_of(scored: ScoredBenchmark, prediction: Prediction) -> float | None:
    """Return 1 if the choice of a presentation is correct, and 0 if it is wrong or was not read.

    Presentations without a reply, and questions without options or known ground truth, have no value.
    """
    answer = scored.answers.get((prediction.sample_id, prediction.turn))
    if answer is None or not answer.options or prediction.error is not None:
        return None
    return float(prediction.choice in answer.options)
