"""Tables of the papers of suites: as printed, checked against themselves, and beside runs."""
