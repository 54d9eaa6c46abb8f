"""Runs in the forms of other tools, and as one table; and a run packed to be sent."""
