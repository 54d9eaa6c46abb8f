"""Psychometric thresholds: how small, faint or crowded an object may be for a model to see it."""

from __future__ import annotations

RULE = "acuity"
"""Name of the rule in a run's manifest that chose its questions adaptively; also name of the reader of psychometric
tests."""
BUDGET = 48
"""Questions of each test without a budget. A test of places has one per place."""
WIDTH = 0.25
"""Width of an interval, in octaves or as a share of the levels' range, at which a test stops."""
