"""Readers of official layouts and of users' own files; each yields one draft per question."""
