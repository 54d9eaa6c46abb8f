"""The verbs of the lab, each loaded when it is called."""
