"""Ratings of replies by people, on the dimensions that a study declares: blinded forms, sheets, means, agreement."""
