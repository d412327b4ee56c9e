"""The settings of the extension, as traits of its application."""

from __future__ import annotations

from typing import Any

from traitlets import (
    Bool,
    Dict,
    Enum,
    Float,
    HasTraits,
    Integer,
    List,
    TraitError,
    Unicode,
    default,
    validate,
)

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.workspace.data_folder import default_data_folder


class ExtensionSettings(HasTraits):
    """Traits of `TkAIExtensionApp`."""

    # -- permissions

    toolsets = List(
        Unicode(),
        ["default"],
        help="The default toolsets of a connection (`?toolsets=` overrides them).",
    ).tag(config=True)

    allowed_toolsets = List(
        Unicode(),
        help="""The only toolsets that a connection may choose besides the default ones; empty for all.
        Others are refused with `permission_denied`.""",
    ).tag(config=True)

    mode_cap = Enum(
        ("plan", "ask", "edit", "auto"),
        "auto",
        help="""The least strict permission mode that a caller may have: `plan` only reads, `ask` asks
        before it writes or runs code, `edit` asks before it runs code, `auto` does not ask.""",
    ).tag(config=True)

    allowed_origins = List(
        Unicode(),
        help="""Origins besides the server's own whose pages may call the extension, such as
        `https://example.org`. `ServerApp.allow_origin` and `allow_origin_pat` count as well. An origin
        is checked even if the request has a token.""",
    ).tag(config=True)

    # -- kernels

    executor = Enum(
        ("auto", "direct"),
        "auto",
        help="""When code runs: after the requests in jupyter_server_nbmodel's ExecutionStack, if that is
        enabled (`auto`), or at once (`direct`). Kernels behind a gateway have their own executor.""",
    ).tag(config=True)

    kernel_start_timeout = Float(
        30.0, help="Timeout for a started kernel to answer, in seconds."
    ).tag(config=True)

    keep_page_runs = Bool(
        True,
        help="""Whether a cell that a person runs in JupyterLab goes on in the notebook once its page is gone:
        its outputs are then written to the file, or to another page that shows the notebook.""",
    ).tag(config=True)

    kernel_env_exclude = List(
        Unicode(),
        help="""Names or patterns (`MY_KEY`, `CORP_*`) of environment variables that are removed from kernels.
        Those that only agents and models use, such as `ANTHROPIC_*`, `CODEX_*` and
        `AWS_BEARER_TOKEN_BEDROCK`, and `JUPYTER_TOKEN` are always removed.""",
    ).tag(config=True)

    filter_all_kernels = Bool(
        True,
        help="""Whether those variables are also removed from the kernels that people start, in which agents
        may run code too, and at each restart of a kernel. It replaces Jupyter's default
        `local-provisioner`; kernelspecs that name a provisioner keep it.""",
    ).tag(config=True)

    # -- the chat

    chat_base_url = Unicode(
        help="Address of an endpoint with the Messages API; by default `ANTHROPIC_BASE_URL`."
    ).tag(config=True)

    chat_model = Unicode(help="The default model of a chat; by default the provider's.").tag(
        config=True
    )

    chat_models = List(Unicode(), help="Further models that a chat may choose.").tag(config=True)

    chat_secrets = Unicode(
        help="""File of keys for the model, such as `.secrets.env`, relative to the root directory; by
        default none. Only keys are read from it, and only if the server's environment has none. Name a
        file only if you trust everybody who can write it: code in kernels can.""",
    ).tag(config=True)

    hide_process = Bool(
        True,
        help="""Whether code in kernels, which runs as the server's user, is denied the environment and
        memory of the server's process (Linux; not against root). Debuggers and profilers
        that attach to the server then need root, and it writes no core dumps.""",
    ).tag(config=True)

    chat_connect = Bool(
        True,
        help="""Whether the user may connect a model in the panel: its key is kept in the user's own
        configuration folder. If false, a key that was stored is not used either.""",
    ).tag(config=True)

    chat_mcp_servers = Bool(
        True,
        help="""Whether chats may use the MCP servers that the user who runs the server has configured, in
        `tk-ai-extension/mcp.json` of their configuration folder.""",
    ).tag(config=True)

    chat_cli = Unicode(
        help="Path of the `claude` program; by default the one of claude-agent-sdk."
    ).tag(config=True)

    acp_agents = Dict(
        help="""Agents of the Agent Client Protocol besides those that are found: by name, a command (a list
        of words), or an object with `command`, and optionally `title`, `variables` (names or patterns of
        the server's variables that its process gets), `environment` (further variables) and `logins`. None
        hides a known agent. Requires `agent-client-protocol` (the extra `acp`).""",
    ).tag(config=True)

    @validate("acp_agents")
    def _check_acp_agents(self, proposal: Any) -> Any:
        from tk_ai_extension.agent.acp.backend import configured

        try:
            configured(proposal["value"])
        except ToolError as error:
            raise TraitError(f"{error.message} {error.hint}") from None
        return proposal["value"]

    chat_silence = Float(
        300.0,
        help="Timeout of a turn in which the model sends nothing and no call is running, in seconds.",
    ).tag(config=True)

    chat_idle = Float(
        900.0, help="Seconds after which the process of an idle chat is stopped."
    ).tag(config=True)

    max_chats = Integer(16, help="Maximum number of chats with a process.").tag(config=True)

    # -- limits

    answer_budget = Integer(
        8_000, help="Maximum characters of output in a result; the rest is in an artifact."
    ).tag(config=True)

    max_wait = Float(3_600.0, help="Maximum seconds that a call waits for code.").tag(config=True)

    max_source = Integer(4_000_000, help="Maximum characters of a cell's source.").tag(config=True)

    max_output = Integer(
        100_000_000,
        help="Maximum bytes of output that are saved of one execution, also in the notebook.",
    ).tag(config=True)

    max_body = Integer(64_000_000, help="Maximum bytes of a request's body.").tag(config=True)

    linked_folders = List(
        Unicode(),
        help="Absolute paths of folders outside the root that links in it may lead to, for example "
        "folders that several users share. Links to other places are refused and not listed.",
    ).tag(config=True)

    max_sessions = Integer(
        1_000,
        help="Maximum number of MCP sessions. Another one is refused until one ends.",
    ).tag(config=True)

    session_timeout = Float(
        3_600.0,
        help="Seconds after which an idle MCP session ends. One whose client has its event stream open "
        "is not idle.",
    ).tag(config=True)

    permission_keep = Float(3_600.0, help="Seconds after which a permission request expires.").tag(
        config=True
    )

    artifact_max_bytes = Integer(
        100_000_000, help="Maximum bytes of one artifact (an output that is too long to show)."
    ).tag(config=True)

    artifact_total_bytes = Integer(
        1_000_000_000, help="Maximum bytes of all artifacts together."
    ).tag(config=True)

    artifact_keep = Float(7 * 86_400.0, help="Seconds after which an artifact is deleted.").tag(
        config=True
    )

    history_keep_days = Integer(
        90, help="Days after which entries of the journal of changes are deleted."
    ).tag(config=True)

    history_max_bytes = Integer(
        500_000_000,
        help="Maximum bytes of the journal of changes; the oldest entries are deleted first.",
    ).tag(config=True)

    data_dir = Unicode(
        help="""Folder of the journal and the artifacts, a subfolder for each root directory; by default below
        Jupyter's data folder. Its files are private (0700, 0600).""",
    ).tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(default_data_folder())
