"""The Jupyter Server extension: the app and its handlers."""
