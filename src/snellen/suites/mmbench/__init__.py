"""MMBench's files and anybody's of the same form: read strictly, written again, made from scratch."""
