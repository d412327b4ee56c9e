"""Sharing a project's kernel with JupyterLab, VS Code, consoles and nbclient."""
