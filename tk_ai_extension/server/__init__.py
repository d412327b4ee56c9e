"""The Jupyter Server extension: the app that wires everything, and its handlers."""
