"""The statistics of studies that compare cells, as the registry finds them (group `study_statistics`)."""

from __future__ import annotations

from snellen_lab.studies.cell_differences import differences_part
from snellen_lab.studies.cell_variance import variance_part
from snellen_lab.studies.metric_agreement import agreement_part
from snellen_lab.studies.model_means import model_means_part
from snellen_lab.studies.sample_stability import stability_part
from snellen_lab.studies.series import StudyStatistic
from snellen_lab.studies.spread import spread_part

SPREAD = StudyStatistic("Spread", spread_part)
VARIANCE = StudyStatistic("Variance", variance_part)
MODELS = StudyStatistic("Mean over models", model_means_part)
PAIRS = StudyStatistic("Pairs", differences_part)
STABILITY = StudyStatistic("Samples compared with the full benchmark", stability_part)
AGREEMENT = StudyStatistic("Agreement of metrics", agreement_part)
