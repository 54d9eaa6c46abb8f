"""Building benchmarks: from drafts to a complete folder that is put in place in one step."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
