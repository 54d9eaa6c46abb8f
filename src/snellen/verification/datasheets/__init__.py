"""Datasheets: what a built benchmark is, in one page, and whether it is certified."""
