"""One set of notebook tools for people and agents in Jupyter Server."""

from __future__ import annotations

from tk_ai_extension._version import __version__

__all__ = ["__version__", "_jupyter_labextension_paths", "_jupyter_server_extension_points"]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Declare for ``jupyter-builder develop`` where the panel is built, and what JupyterLab calls it."""
    return [{"src": "labextension", "dest": "tk-ai-extension"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    """Declare the application that this package adds to Jupyter Server, which calls this at start."""
    # Imported here: `import tk_ai_extension` must stay cheap for kernels and command-line programs.
    from tk_ai_extension.server.app import TkAIExtensionApp

    return [{"module": "tk_ai_extension", "app": TkAIExtensionApp}]
