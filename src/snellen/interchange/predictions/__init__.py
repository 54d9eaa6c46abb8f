"""Files of predictions that other toolkits wrote, taken in as runs (docs/predictions.md)."""
