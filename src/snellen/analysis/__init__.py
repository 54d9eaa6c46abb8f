"""What scores mean: estimates with intervals, tables, reports."""
