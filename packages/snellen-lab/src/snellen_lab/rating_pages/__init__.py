"""Replies rated by people with accounts: the form of `snellen rate` as pages of the server."""
