"""Whether the questions of a built benchmark are good: models as jury and as blind solvers, and the data sheet."""
