"""The human study of embodied tasks, as its TOML file declares it."""

from __future__ import annotations

from importlib.resources import files

from snellen.scoring.rating_study import rated_metric, read_rating_study

STUDY = read_rating_study(files("snellen.suites.lvlm_ehub").joinpath("embodied_study.toml"))
RATED = rated_metric(STUDY)
