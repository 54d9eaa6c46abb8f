"""Thresholds in place of percentages: how small, how faint, how crowded a thing may be for a model to see it."""
