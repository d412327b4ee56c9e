"""Notebook documents (files, tabs), and the router that opens the one that holds a path."""
