"""Code for a person who types: ghost text, and edits of one cell by a prompt."""
