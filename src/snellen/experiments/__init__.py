"""Where asking and scoring meet: evaluations, two models until one is better, studies, analyses of groups of models."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
