"""Notebook documents (files, tabs), and the router that opens the document of a path."""
