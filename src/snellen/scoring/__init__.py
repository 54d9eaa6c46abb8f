"""Judging: the only room that opens answers. Predictions in, scores out."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
