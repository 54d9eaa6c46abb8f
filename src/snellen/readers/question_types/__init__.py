"""Types of questions that are made from annotations, each a small declared class (docs/reform.md)."""
