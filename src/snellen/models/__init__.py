"""Models behind one small interface: `generate` and, if supported, `loglikelihood`."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
