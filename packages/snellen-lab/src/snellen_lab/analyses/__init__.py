"""Analyses: groups of models compared across papers and runs."""
