"""Judging: the only room that opens answers. Predictions in, scores out."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
