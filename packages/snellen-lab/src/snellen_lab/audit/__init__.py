"""Accuracies corrected by labels of a drawn part of the replies: how wrong their reader is, and what that changes."""
