"""Evaluation suites: each owns its paper, and is registered as a stranger's package would be."""
