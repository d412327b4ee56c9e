"""Notebooks that are live in jupyter-collaboration's rooms."""
