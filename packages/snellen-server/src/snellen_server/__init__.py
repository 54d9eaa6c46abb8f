"""Accounts and pages for many over Snellen: an arena, a leaderboard, an explorer."""

__version__ = "0.1.0"
