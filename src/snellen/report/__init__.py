"""Reports: the same tables in a terminal, as Markdown and as one self-contained HTML page; rows as CSV and JSON."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
