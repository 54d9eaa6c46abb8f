"""Runs: the store that loses nothing, and the drivers that fill it."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
