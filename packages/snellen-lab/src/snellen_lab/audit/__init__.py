"""Correct the accuracies of a run for replies that were misread.

People label a random part of the replies. The labels show how often replies were misread, and what
that changes in the accuracies.
"""
