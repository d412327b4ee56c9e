"""`nb`, the command line: a client of the REST routes of Jupyter Server."""
