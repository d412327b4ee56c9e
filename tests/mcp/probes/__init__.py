"""A toolset with tools that a test can watch and hold."""
