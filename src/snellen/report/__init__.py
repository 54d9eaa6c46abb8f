"""Reports: the same tables in a terminal, as Markdown and as one self-contained HTML page; rows as CSV and JSON."""
