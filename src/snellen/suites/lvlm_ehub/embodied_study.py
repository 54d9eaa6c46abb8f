"""The human study of embodied tasks, as its TOML file declares it."""

from __future__ import annotations

from importlib.resources import files

from snellen.scoring.rating_study import RatingStudy

STUDY = RatingStudy.read(files("snellen.suites.lvlm_ehub").joinpath("embodied_study.toml"))
RATED = STUDY.metric()
