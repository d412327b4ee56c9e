"""REST routes of a project's server, for `nb`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tk_ai_extension.server.handlers.base_handler import TkAIHandler, allowed

if TYPE_CHECKING:
    from tk_ai_extension.server.project_settings import ProjectServices


async def _project(handler: TkAIHandler) -> ProjectServices:
    """Return the project's services, once the workspace is built."""
    await handler.services.ready()
    return cast("ProjectServices", handler.services.project)


class SandboxHandler(TkAIHandler):
    """The sandbox of new kernels."""

    @allowed("execute")
    async def post(self) -> None:
        """Enable or disable it: ``{"sandbox": true}``."""
        project = await _project(self)
        sandbox = self.json_body().get("sandbox") is not False
        await project.confine(self.services.workspace.kernels, sandbox=sandbox)
        self.write_json({"sandbox": sandbox})


class SharedKernelHandler(TkAIHandler):
    """The shared kernel."""

    @allowed("execute")
    async def post(self) -> None:
        """Share the kernel of a notebook: ``{"notebook": "a.ipynb"}``."""
        project, workspace = await _project(self), self.services.workspace
        path = workspace.path(self.caller, self.json_body().get("notebook"), tool="nb serve")
        kernel_id = await workspace.kernel_of(path)
        installed = await project.share(workspace.kernels, path, kernel_id)
        self.write_json({"notebook": path, **installed})

    @allowed("execute")
    async def delete(self) -> None:
        """Stop sharing."""
        project = await _project(self)
        self.write_json({"was_shared": await project.unshare()})


class JupyterLabHandler(TkAIHandler):
    """JupyterLab in this server."""

    @allowed("execute")
    async def post(self) -> None:
        """Load JupyterLab; return its address with the token."""
        project = await _project(self)
        self.write_json({"url": project.open_lab()})


PROJECT_ROUTES = (
    (r"api/tk-ai/project/sandbox", SandboxHandler),
    (r"api/tk-ai/project/share", SharedKernelHandler),
    (r"api/tk-ai/project/lab", JupyterLabHandler),
)
"""Routes of a project's server, before those of `routes`."""
