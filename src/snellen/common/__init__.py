"""Modules that all other packages use: images, paths, seeds, conditions, drafts of questions."""
