"""Notebooks that are files: every byte that an edit does not concern stays as it was."""
