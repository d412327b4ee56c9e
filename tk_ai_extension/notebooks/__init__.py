"""Notebook documents (files, tabs), and the store that opens the document of a path."""
