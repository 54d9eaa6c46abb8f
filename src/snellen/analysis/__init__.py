"""From scores to numbers: estimates with intervals, means over benchmarks, studies, lint."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
