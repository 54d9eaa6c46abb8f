"""The reader that is configured by an entry: its TOML names the files, their fields and how
questions are made of them.

docs/reference/entry-fields.md shows each setting with an example.
"""

from snellen.readers.mapped.reading import Mapping, read, read_hub_rows

__all__ = ["Mapping", "read", "read_hub_rows"]
