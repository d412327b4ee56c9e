"""Sharing a project's kernel with VS Code, JupyterLab, consoles and nbclient."""
