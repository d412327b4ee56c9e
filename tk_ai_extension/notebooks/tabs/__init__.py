"""Notebooks that are open in JupyterLab without collaboration: their tabs hold them."""
