"""Notebook documents: a file, a live room; and the store that says which one holds a path now."""
