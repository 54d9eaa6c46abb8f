"""Votes that are all ties say little, and an interval says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snellen_server.arena_ratings.log import read_votes
from snellen_server.arena_ratings.rating import rate_votes
from snellen_server.arena_ratings.votes import RatingSettings


def ties(path: Path, count: int) -> Path:
    votes = [
        {
            "model_a": ("m1", "m2")[i % 2],
            "model_b": ("m2", "m1")[i % 2],
            "winner": "tie",
            "tstamp": float(i),
            "judge": f"arena_user_{i}",
        }
        for i in range(count)
    ]
    path.write_text(json.dumps(votes))
    return path


@pytest.mark.parametrize("interval", ["sandwich", "bootstrap"])
def test_an_interval_of_votes_that_are_all_ties_has_a_width(tmp_path: Path, interval: str) -> None:
    """Five ties leave shares of 17 to 83 % possible: odds of 0.2 to 4.9, 137 points to each side of the middle."""
    few, many = (
        rate_votes(
            read_votes([ties(tmp_path / f"{count}.json", count)]), RatingSettings(interval=interval)
        )
        for count in (5, 60)
    )
    for row in few.models:
        assert row.rating == pytest.approx(1000)
        assert row.low == pytest.approx(1000 - 137.6, abs=3)
        assert row.high == pytest.approx(1000 + 137.6, abs=3)
        assert row.rank == 1
    for narrow, wide in zip(many.models, few.models, strict=True):
        assert 0 < (narrow.high or 0) - (narrow.low or 0) < (wide.high or 0) - (wide.low or 0)
