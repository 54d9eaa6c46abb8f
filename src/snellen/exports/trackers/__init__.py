"""Experiment trackers: each one module, which imports the tracker's library when a run is logged."""
