"""Whether a benchmark's questions are good, one by one: checks by their surface and by models, an audit by people."""
