"""The public names: this is their one list, which the module reads, as type checkers and editors do."""

__version__: str
__all__: list[str]
