"""Pages: `viewing` shows runs on this machine (`snellen view`), `hosting` is the server for many (`snellen serve`)."""
