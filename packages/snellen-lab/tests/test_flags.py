"""Verbs of the lab take the fields of records under the same flags as those of the harness."""

from __future__ import annotations

from test_spec import JUDGE_FLAGS, SCORING, flags


def test_agree_takes_the_fields_of_a_judge() -> None:
    assert flags("agree") >= JUDGE_FLAGS


def test_a_study_takes_the_fields_of_scoring() -> None:
    assert flags("study") >= SCORING
