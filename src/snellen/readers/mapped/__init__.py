"""The declarative reader: an entry's TOML names files, fields and the parts of a question.

docs/reference/entry-fields.md shows each field with an example.
"""

from snellen.readers.mapped.reading import Mapping, read, read_hub_rows

__all__ = ["Mapping", "read", "read_hub_rows"]
