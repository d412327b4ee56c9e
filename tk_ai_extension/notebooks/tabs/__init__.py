"""Notebooks that are open in JupyterLab: their tabs hold them, with collaboration and without."""
