"""Runs: the store that loses nothing, and the drivers that fill it."""
