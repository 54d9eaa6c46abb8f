"""Reports: the same tables in a terminal, as Markdown and as one self-contained HTML page; rows as CSV and JSON."""

import snellen

__path__.append(snellen.__path__[-1])  # says what to import instead of a name that is not here
