"""A kernel of ours shared with people: JupyterLab, VS Code, consoles and nbclient meet in it."""
