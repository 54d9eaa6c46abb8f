"""What `snellen doctor` looks at: this environment, extras, places to write, programs, keys, reach."""
