"""What the project promises, as data.

Each requirement has a stable id, its source, one sentence, and, while it is open, the reason in
words. Tests name the ids that they prove by ``@pytest.mark.proves("doc:join")``, and
``test_requirements.py`` holds the two together in both directions. S0 to S4 are the five documents
that the project began with, ``card`` is a request that came with them, ``project`` its own promise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One promise.

    Attributes:
        id: Its stable name, ``area:slug``.
        source: Where it comes from.
        sentence: The behaviour, which a test can show to be there or not.
        reason_open: Why no test proves it yet: what is missing. None once it is proved.
        partial: A part of it is proved by tests; ``reason_open`` says what the rest waits for.
    """

    id: str
    source: str
    sentence: str
    reason_open: str | None = None
    partial: bool = False

    @property
    def needs_proof(self) -> bool:
        """Whether a test has to name it."""
        return self.reason_open is None or self.partial


# A row is a line.
# fmt: off
REQUIREMENTS: tuple[Requirement, ...] = (
    # -- Documents --
    Requirement("doc:bytes-scope", "project", "the ids about bytes and unknown top-level fields (doc:untouched-bytes, doc:new-file, text:round-trip) hold for files; a room or tab promises no change beyond what Jupyter's own save makes"),
    Requirement("doc:source-split", "S0 S1", "source is stored as lines that keep their `\\n`; the last one gets none; an empty source is `[]`"),
    Requirement("doc:join", "S1", "a source read from file is the joined lines, whether stored as list or string"),
    Requirement("doc:errors", "S0 S1", "missing file, invalid JSON, missing or non-array `cells`, invalid cell object, invalid cell type: a clear error that names the file and the place, the file untouched"),
    Requirement("doc:unknown-fields", "S2", "unknown fields at any level survive an edit"),
    Requirement("doc:lenient", "project", "only the faults of doc:errors are refused; any other violation of the schema is read with `warnings` and stays editable; cells with duplicate ids are addressed as `cell-N`; nbformat 1 to 3 is readable, not writable (`unsupported_format`)"),
    Requirement("doc:untouched-bytes", "project", "cells that were not edited are byte-identical in the file; so are the file's mode and its being a symlink"),
    Requirement("doc:minor-version", "project", "an edit does not upgrade nbformat_minor; a cell in a notebook without ids is addressed as `cell-N`"),
    Requirement("doc:atomic-write", "S2", "everything is validated before writing; a failed or killed write leaves old or new, never part"),
    Requirement("doc:new-cell-id", "S2", "at nbformat 4.5 and above a new cell gets a fresh unique id"),
    Requirement("doc:new-code-cell", "S0", "a new code cell has `execution_count: null`, `outputs: []`; a markdown or raw cell has neither"),
    Requirement("doc:new-file", "S0", "a file made by us is written as nbformat writes it (indent 1, UTF-8, final newline); an existing one keeps its own form"),
    Requirement("doc:empty-notebook", "S1", "a missing notebook written through the text path starts as an empty nbformat 4.5 one"),
    Requirement("doc:conflict", "S2", "an edit of a cell that changed since the caller saw it, or that it never saw, changes nothing and answers with the present source"),
    # -- Cell-marked text --
    Requirement("text:read", "S1", "a notebook reads as `# %% [code|markdown|raw]` marked text by default; a raw view gives the JSON"),
    Requirement("text:ranges", "S1", "line and multi-range selectors address the text"),
    Requirement("text:ranges-grammar", "project", "a number means the same cell in `cell` and in `cells`, negative ones from the end; a part that can be read in two ways is an error, and no code runs"),
    Requirement("text:reading-once", "project", "the reading view digests the outputs of a cell once, until the cell changes or its file is read again"),
    Requirement("text:encodable", "project", "text that is no Unicode (half a surrogate pair) is replaced where it comes in: every read of a file answers, and cells that nobody edits keep their bytes; where Jupyter cannot open a notebook live, the error says why"),
    Requirement("text:round-trip", "S1", "reading and writing back unchanged leaves the file byte-identical, for every notebook in the corpus"),
    Requirement("text:metadata", "S1", "a marker that names an existing, unused cell keeps its metadata and sets type and source; a new cell has empty metadata"),
    Requirement("text:code-fields", "S1", "a cell turned into code gains count and outputs; one turned into markdown or raw loses them"),
    Requirement("text:strict-start", "S1", "text before the first marker, even a blank line, is an error"),
    Requirement("text:cell-n", "S1", "`cell:N` is accepted and means the Nth cell of the revision that was read"),
    Requirement("text:escape", "project", "a source line that looks like a marker survives the round trip"),
    Requirement("text:delete", "project", "a missing marker deletes only a cell that the view which was read contained; an unknown `@` id is an error; a ranged read carries its range"),
    Requirement("text:merge", "project", "writing back merges by cell id with what others changed meanwhile; a cell changed on both sides stops the whole write and shows both"),
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
    Requirement("edit:batch", "S2", "several operations in one call, all or none"),
    Requirement("edit:history", "S2", "a ledger of edits with author; undo"),
    Requirement("edit:linearizable", "project", "callers, a person and another program at once in one notebook: one serial order, within real time, explains every answer, every refusal and the notebook at the end"),
    Requirement("edit:journal-replays", "project", "the journal's changes, applied in that order with what people did in between, give the notebook: each finds its cell where and as it says"),
    Requirement("edit:tools", "S4", "insert_cell, delete_cell, overwrite_cell, move_cell; the index after a move is the one asked for"),
    Requirement("edit:mutate-and-execute", "S0 S1", "one tool both changes the notebook and runs the cell in its kernel"),
    Requirement("edit:effects-of-the-commit", "project", "with any number of callers at once an answer, the journal, the run and undo name the cells that the call itself made or changed: effects are computed by the transaction that makes them, never by a position in a later read; an edit that another program's file replaced before it was saved is made again or refused, never acknowledged"),
    # -- Kernels and sessions --
    Requirement("kernel:python-session", "S0 S1", "`python` in session mode: kernels kept by (session, cwd), several owners may share one, state persists from cell to cell and call to call"),
    Requirement("kernel:python-per-call", "S0 S1", "per-call mode: started for the request and always shut down after it"),
    Requirement("kernel:pool", "S0", "at most 4 session kernels, the least recently used goes; idle ones are swept every 30 s after 5 minutes; kernels bound to notebooks are never swept"),
    Requirement("kernel:queue", "S0 S4", "executions of one kernel run one after the other, first come first served, fair between callers"),
    Requirement("kernel:reset", "S0 S1", "each cell of a `python` call has its own reset flag; a reset while another is in progress is rejected"),
    Requirement("kernel:heartbeat", "S0", "a kernel that died is noticed within 5 s"),
    Requirement("kernel:replace-dead", "S0 S1", "a dead session kernel is replaced before the run; one that crashes in the run is replaced and the code run once more"),
    Requirement("kernel:restart-limit", "S0", "a second crash in one session ends with \"restarted too many times\""),
    Requirement("kernel:start-retry", "S0", "starting a kernel through a gateway is retried once on HTTP 5xx"),
    Requirement("kernel:exhaustion", "S0", "on EMFILE, ENFILE or \"Too many open files\": idle session kernels are let go, then one retry"),
    Requirement("kernel:env", "S0 S1", "cwd, environment entries and `sys.path` are set in the kernel at start and per execution; PI_SESSION_FILE, ARTIFACTS and PI_ARTIFACTS_DIR (the same folder), PI_TOOL_BRIDGE_URL, PI_TOOL_BRIDGE_TOKEN, PI_TOOL_BRIDGE_SESSION are set for `python` kernels"),
    Requirement("kernel:bridge", "S1", "code in a kernel can call the registry's tools through a bridge whose address, token and session are in its environment; the token is good for that caller and that kernel alone, and the caller's permission mode holds"),
    Requirement("kernel:readiness", "S4", "use_notebook waits until the kernel answers, up to 30 s, and logs how long it took; after that a typed error with the kernel's stderr, and no orphan"),
    Requirement("kernel:shared-live", "card", "a person's runs, restarts, shutdowns and renames in the shared kernel update states, staleness and the session's path as they happen"),
    Requirement("kernel:session", "S4", "use_notebook creates the Jupyter session, so that JupyterLab shows the kernel connected"),
    Requirement("kernel:tools", "S4", "list_kernels, list_running_kernels, get_kernel_status, restart_kernel, interrupt_kernel"),
    Requirement("kernel:monitor", "S4", "memory and CPU of a kernel"),
    Requirement("kernel:auto-restart", "S4", "a bound notebook's kernel that died is restarted or replaced, and the caller is told that its variables are gone"),
    # -- Execution --
    Requirement("exec:stack", "S4", "through jupyter_server_nbmodel's ExecutionStack where it is enabled; document_id and cell_id passed where a live document is open, unless writing the outputs ourselves keeps a promise that the stack breaks (an ADR shows it)"),
    Requirement("exec:log", "S4", "the log shows each submission (\"Submitting execution request to kernel …\"), its backend, its end and its duration"),
    Requirement("exec:fallback", "S4", "without it, or when it fails before the code was submitted, through a kernel client of our own, and the log says so; code that was submitted is never run twice"),
    Requirement("exec:wait", "S4", "completion is awaited by event (the source polls every 0.1 s; an ADR says why not)"),
    Requirement("exec:no-block", "S4", "nothing blocks the event loop; a cell of more than 300 s runs through; the longest loop stall under load stays below 200 ms"),
    Requirement("exec:statuses", "project", "every execution ends, as ok, error, interrupted, timed_out, kernel_died, kernel_restarted or connection_lost"),
    Requirement("exec:complete", "S0", "an execution has ended at reply and idle"),
    Requirement("exec:tools", "S4", "execute_ipython, execute_cell, insert_and_execute_cell"),
    Requirement("exec:not-connected", "S4", "without a connected notebook: and without `notebook`: \"No notebook connected. Use use_notebook first\", naming the tool; with `notebook`, execution joins or starts its kernel by itself"),
    Requirement("exec:cancel", "S0 S1 S4", "cancelling interrupts and marks cancelled; a `python` session kernel that does not settle is killed and replaced; a notebook's kernel is not (a person's variables live there): `interrupt_ignored`"),
    Requirement("exec:timeout", "S0 S1", "a wall-clock timeout interrupts and says after how many seconds, keeping what was printed"),
    Requirement("exec:stdin", "S0", "input() warns, is answered empty or refused, and never hangs"),
    Requirement("exec:progress", "S4", "a long execution reports progress"),
    Requirement("exec:concurrent", "S4", "two callers on one kernel queue; one's error does not drop the other's cells"),
    Requirement("exec:own-source", "project", "under concurrent edits code runs once for each answer that says so, as its cell's source was at one moment, and a cell has no other cell's outputs"),
    Requirement("exec:restart-among-callers", "project", "a kernel restarted while several callers run code ends each run that it cuts as kernel_restarted and as nothing else; what was edited stays explained by a serial order, no code runs twice, and without a restart no run ends so"),
    Requirement("exec:saved", "S3", "outputs are attached to the cell and saved; the file on disk has them at most 2 s later while the cell still runs"),
    Requirement("exec:display-update", "project", "update_display_data, clear_output (with wait), carriage return and backspace end as JupyterLab shows them"),
    Requirement("exec:bounded", "project", "what an execution holds in memory is bounded: messages not yet read, requests that wait for a shared kernel, status events; doubling the output doubles the work, never more"),
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
    Requirement("ext:chat-shared", "project", "servers of one root share their chats: a turn is one server's, nobody ends another's, and each goes on where the other ended"),
    Requirement("ext:secrets", "S4", "`.secrets.env` is read, with `export` and quotes; nothing of it reaches a kernel"),
    Requirement("ext:panel", "S4", "the chat panel in JupyterLab"),
    Requirement("ext:magics", "project", "`%tk` asks Claude from a cell, in the chat of its notebook: the answer as it comes, an interrupt stops the turn, and what Claude runs in that kernel runs when it has answered: nothing waits for itself"),
    Requirement("ext:session-visible", "S4", "JupyterLab shows the notebook connected to the agent's kernel"),
    Requirement("ext:listing", "project", "one entry that may not be named (a link that leads away, a name that is no UTF-8, a folder that cannot be read) is left out of a listing and never fails it; an administrator may allow targets of links by a trait"),
    Requirement("ext:toolsets", "project", "an installed package adds a toolset by an entry point, loaded when it is chosen; two tools of one name are an error"),
    Requirement("ext:rtc", "S4", "edits and outputs appear in an open notebook as they happen, with collaboration and without"),
    Requirement("ext:notebook7", "project", "in Jupyter Notebook 7 the panel is in the right area, chats work, and an open notebook is read and changed in its page as in JupyterLab"),
    Requirement("ext:presence", "project", "with collaboration an agent at work is a collaborator with its name, a colour and its place, for as long as it works and some seconds more; no room stays open and nothing is saved for it"),
    Requirement("ext:multi-user", "S4", "two users of one server have separate notebooks, histories and permissions"),
    # -- MCP --
    Requirement("mcp:http", "project", "MCP is served at `/api/tk-ai/mcp` on the server's own port, by the official SDK's server and Streamable HTTP transport behind a Jupyter handler"),
    Requirement("mcp:auth", "project", "a token or a login is needed as for any route of the server; Origin and Host are checked although Jupyter skips the Origin check for tokens"),
    Requirement("mcp:sessions", "project", "in the protocol with sessions (2025-11-25) a session is a caller, and ends when the client says so"),
    Requirement("mcp:abandoned-sessions", "project", "at the bound of sessions the one that was not used for the longest time ends, of the user who has the most; one with a call or a stream stays"),
    Requirement("mcp:requests-refused", "project", "what is no request, and one with the id of a request being answered, is refused with -32600; an unknown cursor, prompt, template or resource is an error, and nothing is silently ignored"),
    Requirement("mcp:sessionless", "project", "in the protocol without sessions (2026-07-28) `?caller=` or `X-TK-Caller` names the caller; without either there is no current notebook and no undo: `notebook_required`"),
    Requirement("mcp:cancel", "project", "an explicit cancellation interrupts the cell"),
    Requirement("mcp:disconnect", "project", "a response stream that merely closes ends the wait; the cell goes on, and `wait_execution` picks it up"),
    Requirement("mcp:instructions", "project", "the server's instructions tell a model how to begin"),
    Requirement("mcp:annotations", "project", "annotations follow from the effect: readOnlyHint, destructiveHint, idempotentHint"),
    Requirement("mcp:output-schemas", "project", "each tool has an output schema, and its structured answer is valid under it"),
    Requirement("mcp:structured", "project", "structuredContent stands beside short text; the same content never comes three times"),
    Requirement("mcp:progress", "project", "progress notifications come at new output and at least every 10 s"),
    Requirement("mcp:logging-ping", "project", "logging level and ping work where the protocol has them"),
    Requirement("mcp:resources", "project", "notebooks, their cells, single outputs and artifacts are resources: `notebook://{path}`, `…/cells/{id}`, `…/outputs/{n}`, `artifact://{id}`"),
    Requirement("mcp:subscriptions", "project", "a subscriber is notified when a person or an agent changes the notebook"),
    Requirement("mcp:prompts", "project", "prompts for the common jobs: explain, fix, clean up, document"),
    Requirement("mcp:completion", "project", "notebook and cell arguments are completed"),
    Requirement("mcp:errors", "project", "an error of a tool is an `isError` result with code and hint; an error of the protocol is a JSON-RPC error"),
    Requirement("mcp:permission-required", "project", "where the mode asks and nobody can be asked within the call, a tool answers `permission_required` with an id; an approval is bound to the hash of the exact arguments and source; the person answers it in the panel, over REST or in a terminal"),
    Requirement("mcp:elicitation", "project", "a client that declares elicitation is asked for permission within the call"),
    Requirement("mcp:toolsets", "project", "a trait or `?toolsets=` chooses the toolsets; an unknown one is an error"),
    Requirement("mcp:examples", "project", "every tool, resource, prompt and completion has an observable example"),
    Requirement("mcp:schema-size", "project", "names, descriptions and input schemas of the default toolset stay below 20,000 characters"),
    Requirement("mcp:reading-size", "project", "the notebook of fifty cells reads in fewer than 12,500 characters with nothing an agent needs missing"),
    Requirement("mcp:second-client", "project", "a second client implementation, not the official Python one, lists and calls the tools"),
    Requirement("mcp:lazy", "project", "starting the server imports neither mcp nor the Claude SDK; what is imported later does not hold the loop"),
    Requirement("mcp:stdio", "project", "the same tools over stdio and over the local socket behind `nb`"),
    # -- REST --
    Requirement("rest:health", "project", "`GET /api/tk-ai/health` says that the extension is up, its version, its backends, and what is configured and missing for the chat"),
    Requirement("rest:tools", "project", "`GET /api/tk-ai/tools` lists the tools with their schemas"),
    Requirement("rest:call", "project", "`POST /api/tk-ai/tools/{name}` takes JSON arguments and answers the structured result"),
    Requirement("rest:executions", "project", "`GET /api/tk-ai/executions/{id}` streams server-sent events and resumes after `Last-Event-ID`"),
    Requirement("rest:artifacts", "project", "`GET /api/tk-ai/artifacts/{id}` gives an artifact to its own user"),
    Requirement("rest:permissions", "project", "`GET /api/tk-ai/permissions` lists what waits for the user's leave, with the diff or the code, and streams what is asked and how it ends; `POST …/{id}` answers it"),
    Requirement("rest:openapi", "project", "an OpenAPI 3.1 description is served, and the routes do what it says"),
    Requirement("rest:methods", "project", "a method that a route has not is 405 with `Allow`, after who asks was checked; a body may be missing where the description says so; a connection that closes says so"),
    Requirement("rest:errors", "project", "an error has the status and the code of its class, never 500 for bad input, and nothing changed"),
    Requirement("rest:base-url", "project", "every route honours the server's `base_url`"),
    Requirement("rest:chat", "project", "the routes of the chat: message, stop, permissions, chats, undo, export, models"),
    # -- Faults --
    Requirement("fault:kernel-killed", "project", "a kernel killed in a cell: `kernel_died` within 5 s, what was printed is kept, the queue goes on, the next request works"),
    Requirement("fault:kernel-oom", "project", "a kernel out of memory: the same, with \"possibly out of memory\"; a MemoryError is an ordinary error"),
    Requirement("fault:never-ready", "project", "a kernel that is never ready: bounded start, its stderr in the error, no orphan process"),
    Requirement("fault:restarted-under", "project", "a kernel restarted or shut down under a running cell: `kernel_restarted` or `kernel_died`; later requests run"),
    Requirement("fault:flood", "project", "100,000 lines or displays: nothing lost silently, memory bounded, the end is seen; in a live document time grows linearly"),
    Requirement("fault:stdin", "project", "a cell that calls `input()` never hangs"),
    Requirement("fault:killed-in-save", "project", "a server killed in mid-save: any reader finds old or new, in files, rooms and JupyterLab's own saves: nothing empty, every acknowledged edit there; 100 tries with files, 40 with three rooms under edits and runs, none broken"),
    Requirement("fault:emptied-notebook", "project", "a notebook that another program's cut-off save left empty is recovered from `.~NAME` beside it where that is surely its content, with a warning; else the error names the copy; a file with content is never overwritten"),
    Requirement("fault:cut-run", "project", "a run or change that the server's end cut off has a journal row: `interrupted: the server stopped`; one that goes on in another server that is alive stays `intended`"),
    Requirement("fault:disk-full", "project", "a full disk: typed error, the old content intact, no retry storm"),
    Requirement("fault:read-only", "project", "a read-only file or folder: typed error, the old content intact"),
    Requirement("fault:schema-version", "project", "the journal and the chats have a schema version; files that former versions wrote are migrated in one transaction for each step, by several servers at once too, and a step that fails changes nothing"),
    Requirement("fault:newer-state", "project", "a journal or chats file of a newer version is neither read nor changed: `state_too_new`, which names what to do"),
    Requirement("fault:state-unavailable", "project", "a data folder that cannot be written, is full or has no file locks: a typed error at once that names the folder and `TkAIExtensionApp.data_dir`; notebooks, chats and the journal are read on, and health says so"),
    Requirement("fault:idle-culler", "project", "a call that waits, an execution or a turn counts as activity of the server for JupyterHub's and Jupyter Server's idle cullers; a session that only listens does not"),
    Requirement("fault:corrupt", "project", "corrupt JSON and invalid notebooks: the faults of doc:errors refused, the rest read with warnings, the file byte-identical, the error says where"),
    Requirement("fault:many-cells", "project", "a notebook of 100,000 cells is listed, read, changed and undone without holding the loop more than 0.2 s, Python's garbage collections apart"),
    Requirement("fault:huge-notebook", "project", "a 200 MB notebook is listed and paged without holding the loop more than 0.2 s"),
    Requirement("fault:concurrent-edit", "project", "two agents and a person edit at once: no lost update, everyone's text is there or its author was told; identical after sync"),
    Requirement("fault:one-server", "project", "of two servers with collaboration on one folder one has a notebook's room; the other reads, and refuses changes (`notebook_open_elsewhere`) until that server or its room ends: nothing acknowledged is lost"),
    Requirement("ext:missing-parts", "project", "a private part of jupyter-collaboration, jupyter_client, jupyter_server or jupyter_server_nbmodel that is gone is found at start: the feature falls back, the log says so once and `health` names it; a notebook with a room is read and not changed"),
    Requirement("fault:server-stop", "project", "a server stopped with chats and cells running exits within 5 s, with no orphan process but the kernels that were asked to stay"),
    Requirement("fault:background", "project", "work that nobody awaits is kept until it ends, its failure is in the log, and it ends with its owner"),
    Requirement("fault:tab-lost", "project", "a browser tab closed, reloaded or offline in the middle of a run: nothing lost"),
    Requirement("fault:connection-lost", "project", "a kernel's connection lost (gateway): `connection_lost`, outcome unknown said so, never run twice"),
    Requirement("fault:chat-cut", "project", "a chat stream cut: the turn goes on or stops as the user chose; reconnect replays from the last event"),
    Requirement("fault:model-api", "project", "the model API answers 401, 429, 500, 529, hangs or cuts the stream: shown at once with what to do; bounded retries; stop works; no tool runs twice"),
    Requirement("fault:agent-killed", "project", "the agent's process killed: typed error, kernel and notebook untouched, the chat resumes"),
    # -- Threats --
    Requirement("threat:csrf", "project", "a web page cannot act through the server: hostile Host, Origin and content type and a missing XSRF token are refused on every route; there is no second port"),
    Requirement("threat:no-token", "project", "no route of the extension answers without authentication"),
    Requirement("threat:path", "project", "no path leads out of the root: `../`, sibling prefix, symlink, hidden file, NUL"),
    Requirement("threat:other-user", "project", "executions, artifacts and chats of another user of the server are not found"),
    Requirement("threat:secrets", "project", "a secret of the server is in no log, notebook, output, kernel environment or model context"),
    Requirement("threat:slow-reader", "project", "a client that reads an event stream slowly or not at all holds back no more than one message of bounded size, is disconnected after a minute and resumes by `Last-Event-ID`; each user's streams are bounded in number"),
    Requirement("threat:lost-pages", "project", "pages that were lost with unsaved work take no connected page's place, are bounded for each user, and expire"),
    Requirement("threat:exhaustion", "project", "an agent cannot exhaust the server: bounds on queue, artifacts, sessions and chats, with clear errors at the bound"),
    Requirement("threat:html", "project", "HTML, SVG, script, `javascript:` links and remote images in a notebook or a message run nothing and fetch nothing"),
    Requirement("threat:remote-pictures", "project", "in an open notebook what agents wrote and ran loads nothing from elsewhere until the person keeps it or presses a button that names the host; what no agent wrote loads as ever"),
    Requirement("threat:prompt-injection", "project", "an instruction in cells, outputs or file names gains nothing: what the mode does not allow is refused where the tool runs, and the refusal is in the journal"),
    Requirement("threat:kernel-pass", "project", "a kernel's code asks by a pass of its kernel's own, good there alone and until it ends, in the chat of its own notebook: it holds no token and no key, and reaches no other chat"),
    Requirement("threat:sandbox-escapes", "project", "code in a bubblewrap sandbox, of root or of an ordinary user, opens none of the machine's kernel settings for writing, gets no capabilities, also not in namespaces of its own, and reaches no process, socket, terminal or file outside"),
    Requirement("threat:kernel-sockets", "project", "an ipykernel that `nb` starts has no channel on TCP: its sockets are in a folder of mode 0700, which goes with it"),
    Requirement("threat:token-log", "project", "a token in a request's address is in no line of the server's log, whatever the answer"),
    Requirement("threat:project-keys", "project", "from a project's file keys are taken and nothing else, after its user has trusted that folder, and never where its kernels have a sandbox; no key goes to an address, a proxy or a program that a less trusted source named, and those of two sources are not mixed"),
    Requirement("threat:environment", "project", "on Linux code of an ordinary user's kernel reads neither the environment nor the memory of the server or of `nb`'s host, and no API key or subscription's token is in the environment of Claude's process"),
    Requirement("threat:forged-message", "project", "a guest kernel client with a wrong key does nothing: the HMAC of every relayed message is verified"),
    # -- Permission modes --
    Requirement("perm:plan", "project", "in `plan` READ runs; WRITE and EXECUTE are refused"),
    Requirement("perm:plan-approval", "project", "a turn in `plan` ends with a plan that waits for an answer, also beyond a restart; approved, it is carried out in the same chat in the mode that is named, which asks as ever"),
    Requirement("perm:ask", "project", "in `ask` READ runs; WRITE and EXECUTE ask"),
    Requirement("perm:edit", "project", "in `edit` READ and WRITE run; EXECUTE asks"),
    Requirement("perm:auto", "project", "in `auto`, the default of MCP clients, everything runs"),
    Requirement("perm:structured", "project", "what a person approves is data (steps, cells, lines with marks) in every interface: no line of code reads as anything else"),
    Requirement("perm:bound", "project", "an approval holds for its notebook, kernel, cells and sources: what changes while a person is asked is asked again, a bounded number of times, and never run"),
    Requirement("perm:beside", "project", "`nb mcp --mode ask` beside a server shows the server's proposal and runs just that"),
    Requirement("perm:message", "project", "a denial can carry a message, which the caller reads and the journal keeps"),
    Requirement("perm:cap", "project", "an administrator's trait caps the mode"),
    Requirement("perm:approvals", "project", "an approval holds once, for this chat or for this notebook, and shows the diff or the code that it is for"),
    # -- nb --
    Requirement("nb:commands", "S3", "open, cells, cell, insert, edit, exec, run, rm, save, status, shutdown"),
    Requirement("nb:headless", "S3", "no Jupyter server, no browser"),
    Requirement("nb:persist", "S3", "the kernel outlives the command and the terminal; its connection is kept in `.nb/`"),
    Requirement("nb:kernelspec", "S3", "any kernelspec"),
    Requirement("nb:scratch", "S3", "`nb run` does not touch the notebook"),
    Requirement("nb:compact", "S3", "cells: one short line each; cell: the whole; outputs cut"),
    Requirement("nb:standard-file", "S3", "what it writes opens in VS Code and JupyterLab: valid nbformat"),
    Requirement("nb:chat", "project", "`nb chat` talks to Claude in the chats of the project, or of the server that a notebook belongs to: one message or a dialogue, questions answered by keys, Ctrl-C stops the turn, `--json` gives events"),
    Requirement("nb:mcp", "S3", "`nb mcp`: the same tools over stdio"),
    Requirement("nb:serve", "S3", "a kernelspec \"Python (nb shared kernel)\" through which VS Code and JupyterLab use the agent's kernel; log in `.nb/`"),
    Requirement("kernel:relay-idle", "project", "a relay with nothing to do uses no processor time and writes no log; a socket that cannot be read is closed, not read again"),
    Requirement("nb:collaborate", "S3", "attached to a running Jupyter Server, person and agent see one kernel state"),
    Requirement("nb:sandbox", "S3", "a kernel in a container: no network, only the project folder"),
    Requirement("nb:cleanup", "S3", "shutdown stops the kernel and cleans up, and only its own"),
    Requirement("nb:one-notebook", "project", "a command acts on the notebook that is named, by its place or by `-n`, and on no other; two different ones are refused with exit 2"),
    Requirement("nb:pipe-is-the-notebook", "project", "in a pipe and with `--json` a run's output is the whole as the notebook holds it (cleared, overwritten and updated outputs as they ended), given once the run has ended or its wait is over"),
    # -- Rendering --
    Requirement("ui:cell-status", "S0 S1", "per cell: pending, running, complete, error"),
    Requirement("ui:status-line", "S0", "action, path, cell, type in one line; code preview that expands"),
    Requirement("ui:json-tree", "S0 S1", "JSON outputs as a tree, images as images"),
    Requirement("ui:truncation", "S0 S1", "a truncation notice with the way to the whole"),
    Requirement("ui:error-block", "S0", "errors stand out and name the notebook"),
    Requirement("ui:stopped-call", "project", "a call that was denied, withdrawn or stopped says so, and the cells that it had changed by then are listed with those of its turn"),
    Requirement("ui:bulk-undo", "project", "the panel's Undo and the notebook's take back the same cells: those that wait for a decision, and none that was kept"),
    Requirement("ui:question-seen", "project", "a question takes an answer once it was on the screen, in its place, for half a second; a click or key meant for the one before it answers nothing, Enter approves once, and no key gives a standing approval"),
    Requirement("ui:whole-change", "project", "a question shows all lines of a change at the panel's default width, with what changed within a line marked, and what runs verbatim"),
    Requirement("ui:deny-words", "project", "a denial may carry a note for whoever asked"),
    Requirement("ui:turn-cost", "project", "the cost of a turn is that turn's alone, also after Claude's process was started again, resumed the session, or failed to answer"),
)
# fmt: on
