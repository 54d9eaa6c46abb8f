"""Services with formats of their own, each a declared `Provider`."""
