"""Studies: many runs that differ in one or more factors, and their joint analysis."""
