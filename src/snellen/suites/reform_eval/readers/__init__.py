"""Readers of official layouts whose records do not map to questions one to one."""
