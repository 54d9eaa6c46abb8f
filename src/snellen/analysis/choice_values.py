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
    """Return 1.0 if the option that a model chose is correct, and 0.0 if it is wrong or could not be read.

    Returns:
        None if the request failed, if the question has no options, or if its correct answer is not available.
    """
    answer = scored.answers.get((prediction.sample_id, prediction.turn))
    if answer is None or not answer.options:
        return None
    if prediction.error is not None:
        return None
    is_correct = prediction.choice in answer.options
    return float(is_correct)
