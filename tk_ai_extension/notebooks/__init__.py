"""Notebook documents (files, rooms, tabs), and the router that opens the one that holds a path."""
