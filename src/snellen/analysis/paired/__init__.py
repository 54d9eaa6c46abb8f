"""Runs compared on the same questions: paired differences, tests, ranks with intervals, and what flipped."""
