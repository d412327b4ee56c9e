"""Verification: run a notebook in a fresh kernel, and compare its outputs with the stored ones."""
