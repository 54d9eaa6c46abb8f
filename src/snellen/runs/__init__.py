"""Runs: the store that loses nothing, and the drivers that fill it."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
