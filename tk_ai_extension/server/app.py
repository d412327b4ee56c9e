"""The Jupyter Server extension: its settings, its start, its end."""

from __future__ import annotations

import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Enum, Float, Integer, List, Unicode, default

from tk_ai_extension import __version__
from tk_ai_extension.kernels.environment import keep_secrets_from_kernels
from tk_ai_extension.model.masking import mask_failed_requests
from tk_ai_extension.server.activity import ServerActivity
from tk_ai_extension.server.channel import Channels
from tk_ai_extension.server.handlers.base import SETTINGS_KEY
from tk_ai_extension.server.handlers.lines import LINES
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.handlers.tabs import CHANNELS_KEY, SOCKETS, TABS_KEY
from tk_ai_extension.server.parts import Managers, Wired
from tk_ai_extension.server.renames import Renames
from tk_ai_extension.server.services import FaceSettings, Services
from tk_ai_extension.server.tabs import Tabs
from tk_ai_extension.workspace.dumpable import hide_process
from tk_ai_extension.workspace.state_folder import default_data_folder

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats
    from tk_ai_extension.cli.project_services import ProjectServices
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.workspace import Workspace


class TkAIExtensionApp(ExtensionApp):
    """One set of notebook tools for people and agents, over MCP and REST."""

    name = "tk_ai_extension"
    version = __version__
    description = __doc__
    load_other_extensions = True

    # -- what callers may do

    toolsets = List(
        Unicode(),
        ["default"],
        help="The toolsets of a connection that does not choose its own (`?toolsets=`).",
    ).tag(config=True)

    mode_cap = Enum(
        ("plan", "ask", "edit", "auto"),
        "auto",
        help="""The most that any caller may do without asking: `plan` only reads, `ask` asks before it
        writes or runs code, `edit` asks before it runs code, `auto` does not ask.""",
    ).tag(config=True)

    allowed_origins = List(
        Unicode(),
        help="""Origins besides the server's own whose pages may call the extension, such as
        `https://example.org`. `ServerApp.allow_origin` and `allow_origin_pat` count as well. An origin
        is checked even where the request brings a token.""",
    ).tag(config=True)

    # -- kernels

    executor = Enum(
        ("auto", "stack", "direct"),
        "auto",
        help="""What runs code: jupyter_server_nbmodel's ExecutionStack (`stack`), connections of our own
        (`direct`), or the stack where that extension is enabled (`auto`). Kernels behind a gateway have an
        executor of their own.""",
    ).tag(config=True)

    kernel_start_timeout = Float(
        30.0, help="Seconds in which a kernel that was started has to answer."
    ).tag(config=True)

    kernel_env_exclude = List(
        Unicode(),
        help="""Names or patterns (`MY_KEY`, `CORP_*`) of environment variables that kernels do not get.
        `ANTHROPIC_*` and `CLAUDE_*` are always left out.""",
    ).tag(config=True)

    filter_all_kernels = Bool(
        True,
        help="""Whether those variables are also kept from the kernels that people start, in which agents
        may run code too, and whenever a kernel is restarted. It takes the place of Jupyter's default
        `local-provisioner`; kernelspecs that name a provisioner are left to it.""",
    ).tag(config=True)

    # -- the chat

    chat_provider = Enum(
        ("auto", "anthropic", "oauth", "compatible", "bedrock", "vertex", "tour"),
        "auto",
        help="""Where the chat's model is: Anthropic's API by a key or by a subscription's token (`oauth`),
        another server that speaks the Messages API (`compatible`: Ollama, LiteLLM, a gateway), a cloud, or
        the tour, a script that needs none. `auto` takes the first one that is configured.""",
    ).tag(config=True)

    chat_base_url = Unicode(
        help="Address of a server that speaks the Messages API; `ANTHROPIC_BASE_URL` unless given."
    ).tag(config=True)

    chat_model = Unicode(
        help="The model that a chat asks unless it names another; the provider's own unless given."
    ).tag(config=True)

    chat_models = List(Unicode(), help="The models that a chat may name besides.").tag(config=True)

    cell_chat = Bool(
        True,
        help="""Whether cells may ask Claude (`%tk`): each Python kernel then gets a pass, which is good in
        that kernel, for its notebook's chat. It needs `filter_all_kernels`.""",
    ).tag(config=True)

    chat_small = Bool(
        None,
        allow_none=True,
        help="""Whether the model of another server is a small one, which is not asked to think and gets
        no features that only Anthropic's own API knows. Unless given: whether its name lacks `claude`.""",
    ).tag(config=True)

    chat_secrets = Unicode(
        ".secrets.env",
        help="""File of keys for the model, relative to the root directory; empty for none. Nothing but
        keys is taken from it, once the user has trusted the folder, and where neither the server's
        environment nor the user's own file has one.""",
    ).tag(config=True)

    hide_process = Bool(
        True,
        help="""Whether code in kernels, which runs as the server's user, is kept from the environment and
        the memory of the server's process (Linux; root is not kept from them). Debuggers and profilers
        that attach to the server need root then, and it leaves no core dumps.""",
    ).tag(config=True)

    chat_trust_folder = Bool(
        False, help="Whether the root directory's file of keys is used although nobody was asked."
    ).tag(config=True)

    chat_cli = Unicode(
        help="Path of the `claude` program; the one that claude-agent-sdk brings unless given."
    ).tag(config=True)

    chat_retries = Integer(
        None,
        allow_none=True,
        help="How often the model is asked again where its server fails or is busy. Unset: as "
        "CLAUDE_CODE_MAX_RETRIES in the environment says, 4 times without it.",
    ).tag(config=True)

    chat_request_timeout = Float(
        600.0, help="Seconds that one request to the model's server may take."
    ).tag(config=True)

    chat_silence = Float(
        120.0,
        help="Seconds after which a turn in which the model says nothing, and nothing runs, is given up.",
    ).tag(config=True)

    chat_idle = Float(
        900.0, help="Seconds after which the process of a chat that nobody uses is let go."
    ).tag(config=True)

    max_chats = Integer(16, help="How many chats may have a process at once.").tag(config=True)

    # -- bounds

    answer_budget = Integer(
        8_000, help="Characters of output that an answer shows; the rest is in an artifact."
    ).tag(config=True)

    max_wait = Float(3_600.0, help="Seconds that one call may wait for code.").tag(config=True)

    max_source = Integer(4_000_000, help="Characters of source that a cell may have.").tag(
        config=True
    )

    max_output = Integer(
        100_000_000,
        help="Bytes of output that are kept of one execution; the notebook gets no more.",
    ).tag(config=True)

    max_body = Integer(
        64_000_000, help="Bytes that the body of a request to the extension may have."
    ).tag(config=True)

    linked_folders = List(
        Unicode(),
        help="Absolute paths of folders outside the root that links in it may lead to, for example "
        "folders that several users share. Links to anywhere else are refused, and in no listing.",
    ).tag(config=True)

    max_sessions = Integer(
        1_000,
        help="How many MCP sessions there may be at once; beyond, the one that was not used for the "
        "longest time ends.",
    ).tag(config=True)

    session_timeout = Float(
        12 * 3_600.0, help="Seconds after which an MCP session that nobody uses is forgotten."
    ).tag(config=True)

    permission_keep = Float(
        3_600.0, help="Seconds for which a request for permission waits for its answer."
    ).tag(config=True)

    artifact_max_bytes = Integer(
        100_000_000, help="Bytes that one artifact (an output too long to show) may have."
    ).tag(config=True)

    artifact_total_bytes = Integer(1_000_000_000, help="Bytes of all artifacts together.").tag(
        config=True
    )

    artifact_keep = Float(7 * 86_400.0, help="Seconds for which an artifact is kept.").tag(
        config=True
    )

    history_keep_days = Integer(90, help="Days for which the journal of changes is kept.").tag(
        config=True
    )

    history_max_bytes = Integer(
        500_000_000, help="Bytes that the journal of changes may have; the oldest entries go first."
    ).tag(config=True)

    data_dir = Unicode(
        help="""Where the journal and the artifacts are kept, in a folder for each root directory: below
        Jupyter's data folder unless given. What is made there is for its user alone (0700, 0600).""",
    ).tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(default_data_folder())

    project: ProjectServices | None = None
    """What a project's own server can do besides (`server.headless`); None in a person's."""

    services: Services

    @property
    def workspace(self) -> Workspace:
        """What the tools work on."""
        return self.services.workspace

    # -- the life of a server

    def initialize_settings(self) -> None:
        """Registers the server's managers, once, where every call finds them.

        What works on them is put together when the server is up (`Services.ready`). Only what must
        not miss anything begins here: secrets are kept from kernels, renamed notebooks followed.
        """
        if self.hide_process:
            hide_process()
        mask_failed_requests()
        server: Any = self.serverapp
        managers = Managers(
            contents=server.contents_manager,
            kernels=server.kernel_manager,
            kernelspecs=server.kernel_spec_manager,
            sessions=server.session_manager,
            server=server,
        )
        self.services = Services(
            managers,
            partial(self._wire, managers),
            partial(self._wire_chats, managers),
            self._face_settings(),
        )
        if self.filter_all_kernels:
            passes = self.services.line if self.cell_chat else None
            keep_secrets_from_kernels(managers.kernels, self.kernel_env_exclude, passes)
        self._renames = Renames(server.event_logger, self.services.renamed)
        self._tabs = self.settings[TABS_KEY] = Tabs()
        self._channels = self.settings[CHANNELS_KEY] = Channels()
        self.settings[SETTINGS_KEY] = self.services
        self._activity = ServerActivity(server.web_app.settings, self.services.working)

    def initialize_handlers(self) -> None:
        """Adds the routes."""
        cast("list[Any]", self.handlers).extend([*SOCKETS, *LINES, *ROUTES])

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:  # noqa: ARG002
        """The server is up: what takes long to import is imported when there is time, or need."""
        self._stop_on_interrupt()
        self._activity.start()
        self.services.prepare()

    def current_activity(self) -> int | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """How many calls, runs and turns go on; while there are any, Jupyter does not stop as idle."""
        return self.services.working() or None

    async def stop_extension(self) -> None:
        """Ends what runs here."""
        self._renames.close()
        self._activity.stop()
        self._channels.close()
        await self.services.close()
        self._tabs.close()

    def _wire(self, managers: Managers) -> Wired:
        # Its imports take as long as all else that the extension does at the server's start.
        from tk_ai_extension.server.wiring import wire

        return wire(self, managers, self._tabs)

    def _wire_chats(self, managers: Managers, wired: Wired, registry: Registry) -> Chats:
        from tk_ai_extension.server.chatting import wire_chats

        return wire_chats(self, managers, wired, registry)

    def _stop_on_interrupt(self) -> None:
        """Lets SIGINT stop the server as SIGTERM does, where Jupyter leaves it to Python.

        With a terminal Jupyter asks there. Without one its loop would just be left: no extension
        would be stopped, cells and rooms would be cut off in the middle of a save.
        """
        server: Any = self.serverapp
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda _number, _frame: server.stop(from_signal=True))

    def _face_settings(self) -> FaceSettings:
        return FaceSettings(
            toolsets=tuple(self.toolsets),
            max_body=self.max_body,
            allowed_origins=frozenset(
                origin.lower().rstrip("/") for origin in self.allowed_origins
            ),
            session_timeout=self.session_timeout,
            max_sessions=self.max_sessions,
        )
