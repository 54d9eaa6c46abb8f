"""Visual Dialog with its published candidates."""
