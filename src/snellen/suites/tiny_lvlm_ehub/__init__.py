"""Tiny LVLM-eHub: 50 samples a data set, in self-contained folders."""
