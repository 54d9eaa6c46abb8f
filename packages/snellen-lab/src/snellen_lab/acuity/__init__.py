"""Thresholds in place of percentages: how small, how faint, how crowded a thing may be for a model to see it."""

from __future__ import annotations

RULE = "acuity"
"""The name under which a run's manifest keeps the questions that were placed adaptively; also that of the reader of
psychometric tests."""
BUDGET = 48
"""Questions of each test, unless a budget says otherwise; a test of places asks one at each."""
WIDTH = 0.25
"""Width of an interval, in octaves or as a share of the levels' range, below which a test asks no more."""
