"""What the project promises, as data.

Each requirement has a stable id, its source and one sentence. Tests name the ids that they prove by
``@pytest.mark.proves("doc:join")``, and ``test_requirements.py`` holds the two together in both directions.
S0 to S4 are the five documents that the project began with, ``card`` is a request that came with them,
``project`` its own promise: at most 60, and a new one replaces another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROMISES: Mapping[int, str] = {
    1: "Nobody's work is lost",
    2: "Nothing else changes",
    3: "Outputs belong to their code",
    4: "Every run ends as itself",
    5: "Nothing runs unseen",
    6: "One's own changes can be undone",
    7: "Callers never meet",
    8: "No one without a token, no path outside the root, no script from a notebook",
    9: "Keys stay home",
    10: "It stays responsive",
}
"""What a user may rely on."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Attributes:
        id: Its stable name, ``area:slug``.
        source: Where it comes from.
        sentence: The behaviour, which a test can show to be there or not.
        promise: The promise of `PROMISES` that it is a part of; None if it says what the product is for.
    """

    id: str
    source: str
    sentence: str
    promise: int | None = None


# A row is a line.
# fmt: off
REQUIREMENTS: tuple[Requirement, ...] = (
    # -- Documents --
    Requirement("doc:source-split", "S0 S1", "source is stored as lines that keep their `\\n`; the last one gets none; an empty source is `[]`"),
    Requirement("doc:join", "S1", "a source read from file is the joined lines, whether stored as list or string"),
    Requirement("doc:errors", "S0 S1", "missing file, invalid JSON, missing or non-array `cells`, invalid cell object, invalid cell type: a clear error that names the file and the place, the file untouched"),
    Requirement("doc:unknown-fields", "S2", "unknown fields at any level survive an edit"),
    Requirement("doc:atomic-write", "S2", "everything is validated before writing; a failed or killed write leaves old or new, never part"),
    Requirement("doc:new-cell-id", "S2", "at nbformat 4.5 and above a new cell gets a fresh unique id"),
    Requirement("doc:new-code-cell", "S0", "a new code cell has `execution_count: null`, `outputs: []`; a markdown or raw cell has neither"),
    Requirement("doc:new-file", "S0", "a file made by us is written as nbformat writes it (indent 1, UTF-8, final newline); an existing one keeps its own form"),
    Requirement("doc:empty-notebook", "S1", "a missing notebook written through the text path starts as an empty nbformat 4.5 one"),
    Requirement("doc:conflict", "S2", "an edit of a cell that changed since the caller saw it, or that it never saw, changes nothing and answers with the present source"),
    # -- Cell-marked text --
    Requirement("text:read", "S1", "a notebook reads as `# %% [code|markdown|raw]` marked text by default; a raw view gives the JSON"),
    Requirement("text:ranges", "S1", "line and multi-range selectors address the text"),
    Requirement("text:round-trip", "S1", "reading and writing back unchanged leaves the file byte-identical, for every notebook in the corpus"),
    Requirement("text:metadata", "S1", "a marker that names an existing, unused cell keeps its metadata and sets type and source; a new cell has empty metadata"),
    Requirement("text:code-fields", "S1", "a cell turned into code gains count and outputs; one turned into markdown or raw loses them"),
    Requirement("text:strict-start", "S1", "text before the first marker, even a blank line, is an error"),
    Requirement("text:cell-n", "S1", "`cell:N` is accepted and means the Nth cell of the revision that was read"),
    # -- Cell edits --
    Requirement("edit:notebook-tool", "S0", "`notebook` edit, insert, delete by index; insert accepts 0 to count, the others 0 to count-1; content needed for edit and insert; edit keeps the cell's type, insert defaults to code; answers a summary and action, cellIndex, cellType, totalCells, cellSource; delete answers the removed source"),
    Requirement("edit:relative-path", "S0", "its path is relative to the session's folder"),
    Requirement("edit:notebookedit", "S2", "`NotebookEdit` replace, insert, delete with the shape, defaults and result of S2"),
    Requirement("edit:notebookedit-path", "S2", "absolute path and `.ipynb` required"),
    Requirement("edit:replace-clears", "S2", "replacing a code cell's source clears count and outputs; a markdown cell keeps its metadata"),
    Requirement("edit:replace-at-end", "S2", "replace addressed one past the last cell becomes an insert, and then needs cell_type"),
    Requirement("edit:insert-after", "S2", "insert goes after the anchor; with an empty id at the start; needs cell_type"),
    Requirement("edit:resolve", "S2", "a literal id first, then `cell-N`; failure lists up to ten ids"),
    Requirement("edit:plan-mode", "S2", "a mutating tool in plan mode is refused with a clear answer"),
    Requirement("edit:batch", "S2", "several operations in one call, all or none; where a cell fails or cannot run they are undone, and the result says which are not"),
    Requirement("edit:history", "S2", "a ledger of edits with author; undo"),
    Requirement("edit:tools", "S4", "insert_cell, delete_cell, overwrite_cell, move_cell; the index after a move is the one asked for"),
    Requirement("edit:mutate-and-execute", "S0 S1", "one tool both changes the notebook and runs the cell in its kernel"),
    # -- Kernels and sessions --
    Requirement("kernel:python-session", "S0 S1", "`python` in session mode: kernels kept by (session, cwd), several owners may share one, state persists from cell to cell and call to call"),
    Requirement("kernel:python-per-call", "S0 S1", "per-call mode: started for the request and always shut down after it"),
    Requirement("kernel:pool", "S0", "at most 4 session kernels for each user; the least recently used one is closed first; idle ones are swept every 30 s after 5 minutes; kernels bound to notebooks are never swept"),
    Requirement("kernel:queue", "S0 S4", "executions of one kernel run one after the other, first come first served, fair between callers"),
    Requirement("kernel:reset", "S0 S1", "each cell of a `python` call has its own reset flag; a reset while another is in progress is rejected"),
    Requirement("kernel:heartbeat", "S0", "a kernel that died is noticed within 5 s"),
    Requirement("kernel:replace-dead", "S0 S1", "a dead session kernel is replaced before the run; one that crashes in the run is replaced and the code run once more"),
    Requirement("kernel:restart-limit", "S0", "a second crash in one session ends with \"restarted too many times\""),
    Requirement("kernel:start-retry", "S0", "starting a kernel through a gateway is retried once on HTTP 5xx"),
    Requirement("kernel:exhaustion", "S0", "on EMFILE, ENFILE or \"Too many open files\": idle session kernels are shut down, then one retry"),
    Requirement("kernel:env", "S0 S1", "cwd, environment entries and `sys.path` are set in the kernel at start and per execution; PI_SESSION_FILE, ARTIFACTS and PI_ARTIFACTS_DIR (the same folder), PI_TOOL_BRIDGE_URL, PI_TOOL_BRIDGE_TOKEN, PI_TOOL_BRIDGE_SESSION are set for `python` kernels"),
    Requirement("kernel:bridge", "S1", "code in a kernel can call the registry's tools through a bridge; its address, token and session are in the kernel's environment; the token is good for that caller and that kernel alone, and the caller's permission mode holds"),
    Requirement("kernel:readiness", "S4", "use_notebook waits until the kernel answers, up to 30 s, and logs how long it took; after that a typed error with the kernel's stderr, and no orphan"),
    Requirement("kernel:shared-live", "card", "a person's runs, restarts, shutdowns and renames in the shared kernel update states, staleness and the session's path as they happen"),
    Requirement("kernel:session", "S4", "use_notebook creates the Jupyter session, so that JupyterLab shows the kernel connected"),
    Requirement("kernel:tools", "S4", "list_kernels, list_running_kernels, get_kernel_status, restart_kernel, interrupt_kernel"),
    Requirement("kernel:monitor", "S4", "memory and CPU of a kernel"),
    Requirement("kernel:auto-restart", "S4", "a bound notebook's kernel that died is restarted or replaced, and the caller gets a notice that its variables are gone"),
    # -- Execution --
    Requirement("exec:stack", "S4", "through jupyter_server_nbmodel's ExecutionStack where it is enabled; document_id and cell_id passed where a live document is open, unless writing the outputs ourselves keeps a promise that the stack breaks (an ADR shows it)"),
    Requirement("exec:log", "S4", "the log shows each submission (\"Submitting execution request to kernel …\"), its backend, its end and its duration"),
    Requirement("exec:fallback", "S4", "without it, or when it fails before the code was submitted, through a kernel client of our own, and the log says so; code that was submitted is never run twice"),
    Requirement("exec:wait", "S4", "completion is awaited by event (the source polls every 0.1 s; an ADR says why not)"),
    Requirement("exec:no-block", "S4", "nothing blocks the event loop; a cell of more than 300 s runs through; the longest loop stall under load stays below 200 ms"),
    Requirement("exec:complete", "S0", "an execution has ended at reply and idle"),
    Requirement("exec:tools", "S4", "execute_ipython, execute_cell, insert_and_execute_cell"),
    Requirement("exec:not-connected", "S4", "without a connected notebook: and without `notebook`: \"No notebook connected. Use use_notebook first\", naming the tool; with `notebook`, execution joins or starts its kernel by itself"),
    Requirement("exec:cancel", "S0 S1 S4", "cancelling interrupts and marks cancelled; a `python` session kernel that does not settle is killed and replaced; a notebook's kernel is not (a person's variables live there): `interrupt_ignored`"),
    Requirement("exec:timeout", "S0 S1", "a wall-clock timeout interrupts and says after how many seconds, keeping what was printed"),
    Requirement("exec:stdin", "S0", "input() warns, is answered empty or refused, and never hangs"),
    Requirement("exec:progress", "S4", "a long execution reports progress"),
    Requirement("exec:concurrent", "S4", "two callers on one kernel queue; one's error does not drop the other's cells"),
    Requirement("exec:saved", "S3", "outputs are attached to the cell and saved; the file on disk has them at most 2 s later while the cell still runs"),
    # -- Outputs --
    Requirement("out:types", "S3 S4", "stream, execute_result, display_data, error"),
    Requirement("out:mime", "S0 S1", "text: markdown, then plain, then HTML converted"),
    Requirement("out:structured", "S0 S1", "JSON, PNG and JPEG captured; status MIME types become events without text"),
    Requirement("out:ansi", "S4", "ANSI codes stripped from streams, results and tracebacks in what a model reads; kept in the notebook"),
    Requirement("out:sanitize", "S0", "control characters and invalid UTF-8 never break a message"),
    Requirement("out:truncate", "S0 S1", "over the threshold the text is cut at a UTF-8 boundary, with total lines and bytes, and the whole in an artifact"),
    Requirement("out:artifact", "S0 S1", "an artifact is read by id, page by page; only its caller's user can read it"),
    Requirement("out:stream", "S0 S1", "chunks reach the caller while the cell runs"),
    # -- Extension --
    Requirement("ext:managers", "S4", "the managers are registered once at start and reach every tool call"),
    Requirement("ext:notebook-manager", "S4", "name to path and kernel, current notebook, several notebooks at once, per caller"),
    Requirement("ext:use-notebook", "S4", "the eight steps of S4, idempotent"),
    Requirement("ext:unuse", "S4", "unuse_notebook and list_managed_notebooks"),
    Requirement("ext:mcp-http", "S4", "MCP at `/api/tk-ai/mcp`"),
    Requirement("ext:chat", "S4", "POST `/api/tk-ai/mcp/chat` answers a message through the Claude Agent SDK with the tools in process"),
    Requirement("ext:secrets", "S4", "`.secrets.env` is read, with `export` and quotes; nothing of it reaches a kernel"),
    Requirement("ext:panel", "S4", "the chat panel in JupyterLab"),
    Requirement("ext:session-visible", "S4", "JupyterLab shows the notebook connected to the agent's kernel"),
    Requirement("ext:rtc", "S4", "edits and outputs appear in an open notebook as they happen; with collaboration everybody who has it open sees them, through whichever page answers, and an answered edit is in the file"),
    Requirement("ext:multi-user", "S4", "two users of one server have separate notebooks, histories and permissions"),
    # -- nb --
    Requirement("nb:commands", "S3", "open, cells, cell, insert, edit, exec, run, rm, save, status, shutdown"),
    Requirement("nb:headless", "S3", "no Jupyter server, no browser"),
    Requirement("nb:persist", "S3", "the kernel outlives the command and the terminal, in the project's server; its connection is kept in `.nb/`"),
    Requirement("nb:kernelspec", "S3", "any kernelspec"),
    Requirement("nb:scratch", "S3", "`nb run CODE` does not touch the notebook"),
    Requirement("nb:compact", "S3", "cells: one short line each; cell: the whole; outputs cut"),
    Requirement("nb:standard-file", "S3", "what it writes opens in VS Code and JupyterLab: valid nbformat"),
    Requirement("nb:mcp", "S3", "`nb mcp`: the same tools over stdio"),
    Requirement("nb:serve", "S3", "a kernelspec \"Python (nb shared kernel)\" through which VS Code and JupyterLab use the agent's kernel; log in `.nb/`"),
    Requirement("nb:collaborate", "S3", "attached to a running Jupyter Server, person and agent see one kernel state"),
    Requirement("nb:sandbox", "S3", "a kernel in a container: no network, only the project folder"),
    Requirement("nb:cleanup", "S3", "shutdown stops the kernel and cleans up, and only its own"),
    # -- Rendering --
    Requirement("ui:cell-status", "S0 S1", "per cell: pending, running, complete, error"),
    Requirement("ui:status-line", "S0", "action, path, cell, type in one line; code preview that expands"),
    Requirement("ui:json-tree", "S0 S1", "JSON outputs as a tree, images as images"),
    Requirement("ui:truncation", "S0 S1", "a truncation notice with the way to the whole"),
    Requirement("ui:error-block", "S0", "errors stand out and name the notebook"),
    # -- Promise 1: Nobody's work is lost --
    Requirement("edit:linearizable", "project", "several callers insert, overwrite, delete, move, run and undo in one notebook at once: the notebook at the end is what was answered, nothing doubled, nothing lost, and a refused change changed nothing", promise=1),
    Requirement("fault:concurrent-edit", "project", "two agents and a person edit at once: no lost update, everyone's text is there or its author got an error; identical after sync", promise=1),
    Requirement("text:merge", "project", "writing cell-marked text back merges by cell id with others' changes since then; a missing marker deletes only a cell that was read; a cell changed on both sides stops the whole write and shows both", promise=1),
    Requirement("fault:killed-in-save", "project", "a server killed in mid-save: any reader finds old or new, and every acknowledged edit is there", promise=1),
    Requirement("fault:disk-full", "project", "a full disk, a read-only file or folder: a typed error, the old content intact", promise=1),
    Requirement("fault:tab-lost", "project", "a browser tab closed, reloaded or offline in the middle of a run, an agent's or its person's: the run goes on, and nothing is lost or shown twice", promise=1),
    # -- Promise 2: Nothing else changes --
    Requirement("doc:untouched-bytes", "project", "cells of a file that were not edited keep their bytes, as do unknown fields, the file's mode and its being a symlink; a tab promises no change beyond what Jupyter's own save makes", promise=2),
    Requirement("doc:lenient", "project", "only the faults of doc:errors are refused, and the file stays as it is; any other violation of the schema is read and stays editable, with `warnings` where ids, sources, metadata or outputs are not what they must be; nbformat 1 to 3 is readable, not writable (`invalid_notebook`); text that is no Unicode is replaced where it comes in", promise=2),
    Requirement("doc:minor-version", "project", "an edit does not upgrade nbformat_minor; a cell in a notebook without ids is addressed as `cell-N`", promise=2),
    # -- Promise 3: Outputs belong to their code --
    Requirement("exec:own-source", "project", "under concurrent edits code runs once for each answer that says so, as its cell's source was at one moment, and a cell has no other cell's outputs", promise=3),
    Requirement("exec:display-update", "project", "update_display_data, clear_output (with wait), carriage return and backspace end as JupyterLab shows them", promise=3),
    Requirement("exec:display-elsewhere", "project", "a display of an earlier cell that later code in the same kernel updates, a person's in JupyterLab too, is updated in the notebook, wherever that is; outputs that are others by now are left alone", promise=3),
    Requirement("mcp:disconnect", "project", "a response stream that merely closes ends the wait: the cell goes on, and `wait_execution` picks it up; an explicit cancellation interrupts it", promise=3),
    # -- Promise 4: Every run ends as itself --
    Requirement("exec:statuses", "project", "every execution ends, as ok, error, interrupted, timed_out, kernel_died, kernel_restarted or connection_lost; later requests run", promise=4),
    Requirement("fault:kernel-killed", "project", "a kernel killed in a cell, or out of memory: `kernel_died` within 5 s, what was printed is kept, the queue goes on, the next request works", promise=4),
    Requirement("fault:never-ready", "project", "a kernel that is never ready: bounded start, its stderr in the error, no orphan process", promise=4),
    Requirement("fault:connection-lost", "project", "a kernel's connection lost (gateway): `connection_lost`, outcome unknown said so, never run twice", promise=4),
    Requirement("fault:cut-run", "project", "a run that the server's end cut off has a journal row: `interrupted: the server stopped`; one that goes on in another server that is alive stays `intended`", promise=4),
    Requirement("fault:server-stop", "project", "a server stopped with chats and cells running exits within 5 s, with no orphan process; who waits for a cell is answered that the server stopped, and what to do", promise=4),
    Requirement("chat:one-end", "project", "a turn ends once: if the model's API answers 401, 429, 500, 529, hangs or cuts the stream, and if the agent's process hangs or dies; the error says what to do, no tool runs twice, and the chat goes on", promise=4),
    # -- Promise 5: Nothing runs unseen --
    Requirement("perm:modes", "project", "in `plan` READ runs, and nothing else; in `ask` WRITE and EXECUTE ask; in `edit` EXECUTE asks; in `auto`, the default of MCP clients, everything runs", promise=5),
    Requirement("perm:plan-approval", "project", "a turn in `plan` ends with a plan that waits for an answer, also beyond a restart; approved, it is carried out in the same chat in the mode that is named, which asks as ever", promise=5),
    Requirement("perm:cap", "project", "an administrator's trait caps the mode", promise=5),
    Requirement("perm:approvals", "project", "an approval holds once, for this chat, this notebook or one tool, shows the diff or the code that it is for, and can be removed; a denial can carry a message", promise=5),
    Requirement("perm:bound", "project", "an approval holds for its notebook, kernel, cells and sources, as they were shown: what changes while a person is asked is asked again, a bounded number of times, and never run", promise=5),
    Requirement("perm:agent-actions", "project", "the chat's permission mode decides what an agent, also Claude, does with its built-in tools; its files stay below the root, are journalled and undone with the turn", promise=5),
    Requirement("mcp:permission-required", "project", "where the mode asks and nobody can be asked within the call, a tool answers `permission_required` with an id; the person answers it in the panel, over REST or in a terminal", promise=5),
    Requirement("mcp:elicitation", "project", "a client that declares elicitation is asked for permission within the call", promise=5),
    Requirement("threat:prompt-injection", "project", "an instruction in cells, outputs or file names gains nothing: what the mode does not allow is refused where the tool runs, and the refusal is in the journal", promise=5),
    # -- Promise 6: One's own changes can be undone --
    Requirement("rest:restore", "project", "one request restores a chat and its notebooks to before a turn; of several at once one takes effect; a cell that was edited since stays and is listed; the agent forgets the turn and those after it", promise=6),
    # -- Promise 7: Callers never meet --
    Requirement("threat:other-user", "project", "executions, artifacts, permissions and chats of another user of the server are not found", promise=7),
    Requirement("mcp:sessions", "project", "a caller is a session of MCP, or what `?caller=` or `X-TK-Caller` names; without either there is no current notebook and no undo: `invalid_arguments`", promise=7),
    # -- Promise 8: No one without a token, no path outside the root, no script from a notebook --
    Requirement("threat:csrf", "project", "a web page cannot act through the server: hostile Host, Origin and content type and a missing XSRF token are refused on every route; there is no second port", promise=8),
    Requirement("threat:no-token", "project", "no route of the extension answers without authentication", promise=8),
    Requirement("threat:path", "project", "no path leads out of the root: `../`, sibling prefix, symlink, hidden file, NUL", promise=8),
    Requirement("threat:html", "project", "HTML, SVG, script, `javascript:` links and remote images in a notebook or a message run nothing and, in the panel, fetch nothing", promise=8),
    Requirement("threat:sandbox-escapes", "project", "code in a bubblewrap sandbox, of root or of an ordinary user, opens none of the machine's kernel settings for writing, gets no capabilities, also not in new namespaces, and reaches no process, socket, terminal or file outside", promise=8),
    Requirement("hub:tokens", "project", "behind a JupyterHub the panel, REST, MCP and the page's WebSocket work for a login or a token that may access that server, and for no other; its culler ends nothing that works", promise=8),
    # -- Promise 9: Keys stay home --
    Requirement("threat:secrets", "project", "a secret of the server is in no log, notebook, output, kernel environment, export or model context", promise=9),
    Requirement("connect:store", "project", "the connection is a file of mode 0600 in the user's configuration folder, written atomically; a link, another mode, or a folder that others can write is refused", promise=9),
    Requirement("connect:address", "project", "a key that was entered is sent to the address that it was entered for, and to no other: another address forgets it, a redirect or another source's address does not get it", promise=9),
    Requirement("connect:form", "project", "a model is connected in the panel: a provider, a key or a token, one message as a test, and then it answers; errors name the field and what to do; an administrator can switch it off", promise=9),
    # -- Promise 10: It stays responsive --
    Requirement("threat:exhaustion", "project", "an agent or a slow client cannot exhaust the server: bounds on queue, output, artifacts, streams, sessions and chats, with clear errors at the bound", promise=10),
    Requirement("fault:flood", "project", "100,000 lines or displays: nothing lost, memory bounded, the end is seen; in a live document time grows linearly", promise=10),
    Requirement("fault:huge-notebook", "project", "a notebook of 50 MB or 5,000 cells is listed, read, changed and undone without holding the loop more than 0.2 s; a larger one works", promise=10),
    Requirement("mcp:lazy", "project", "starting the server imports neither mcp nor the Claude SDK; what is imported later does not hold the loop; `health`, the models and the tools over REST need neither", promise=10),
    # -- What the product is for --
    Requirement("ext:any-agent", "project", "an agent of the Agent Client Protocol that is installed or named by a setting answers in a chat like Claude: the same tools, approvals, journal, undo of a turn, stop, plans and images; one that hangs, dies or sends what is no message ends its turn with a typed error"),
    Requirement("ext:toolsets", "project", "a trait or `?toolsets=` chooses the toolsets that an administrator allows; an installed package adds one by an entry point"),
    Requirement("ext:notebook7", "project", "in Jupyter Notebook 7 the panel is in the right area, chats work, and an open notebook is read and changed in its page as in JupyterLab"),
    Requirement("mcp:http", "project", "MCP is served at `/api/tk-ai/mcp` on the server's own port, by the official SDK's server and Streamable HTTP transport behind a Jupyter handler"),
    Requirement("mcp:focus", "project", "an agent from anywhere knows which notebook, cell and selection its own user looks at, and marks a cell for them; a person who follows is taken there"),
    Requirement("mcp:structured", "project", "a tool's answer is short text and structured content that is valid under its output schema; the schemas of the default toolset stay below 20,000 characters, and every tool has an example"),
    Requirement("mcp:resources", "project", "notebooks, their cells, single outputs and artifacts are resources, and the common jobs are prompts"),
    Requirement("rest:call", "project", "`POST /api/tk-ai/tools/{name}` takes JSON arguments and answers the structured result; an error has the status and the code of its class, over MCP too, never 500 for bad input, and nothing changed"),
    Requirement("rest:chat", "project", "the routes of the chat: message, stop, permissions, chats, undo, export, models, setup; a stream that was cut is replayed from the last event, and the turn goes on"),
    Requirement("chat:servers-own", "project", "the agents of chats start the MCP servers in the user's own `mcp.json` and ask for each call of their tools; a server that does not start is named, and the chat goes on without it"),
    Requirement("code:completion", "project", "ghost text and a prompt in a cell propose code from the cells around, with names and types of variables, never their values; nothing is written before a person accepts it, as one step of their undo stack"),
    Requirement("nb:starts", "project", "a command of `nb` acts on the notebook that is named and on no other; it starts the server and the kernel that it needs"),
    Requirement("verify:run", "project", "a notebook is run from the top in a new kernel, with parameters, and its outputs are compared by what they show; each cell that fails or differs is named, and the notebook stays as it is unless the outputs are updated"),
)
# fmt: on
