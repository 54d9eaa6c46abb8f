"""One module a verb; each holds `command`."""
