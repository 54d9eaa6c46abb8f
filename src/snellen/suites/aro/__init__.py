"""ARO: attribution, relation and order in captions."""
