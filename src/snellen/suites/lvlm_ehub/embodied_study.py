"""The human study of embodied tasks, as its TOML file declares it."""

from __future__ import annotations

from importlib.resources import files

from snellen.experiments.ratings.study import read_rating_study
from snellen.experiments.ratings.summary import rated_metric

STUDY = read_rating_study(files("snellen.suites.lvlm_ehub").joinpath("embodied_study.toml"))
RATED = rated_metric(STUDY)
