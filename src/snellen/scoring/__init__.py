"""Judging: the only room that opens answers. Predictions in, scores out."""
