"""What `snellen --help` shows of the lab's verbs."""
