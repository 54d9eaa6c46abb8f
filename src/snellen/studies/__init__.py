"""Studies: what varies over several runs, and what their scores say together. `snellen.studying` carries them out."""
