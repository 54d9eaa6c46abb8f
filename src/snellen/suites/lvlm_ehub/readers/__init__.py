"""Readers of LVLM-eHub's files that no mapping describes."""
