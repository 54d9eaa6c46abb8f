"""Where asking and scoring meet: evaluations, two models until one is better, studies, analyses of groups of models."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
