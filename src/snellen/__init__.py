"""Snellen: an eye chart for large vision-language models."""

__version__ = "0.1.0"
