"""Readers of official layouts and of users' own files: each yields drafts, one a question."""
