"""Local pages over runs: an index of their questions, and a web application that only reads."""
