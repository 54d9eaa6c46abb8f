"""Intervals that hold whenever one stops: of a run that asks until it knows enough, and of two models compared so."""
