"""Sentences that people read on the screen, each with a code by which an interface translates it.

`SENTENCES` defines the English text of each code. A `Sentence` is that text and keeps its code and
parameters for the interface that sends it on (`sentence_info`). `scripts/typescript.py` generates the
front end's table from it; a code that the front end does not know is shown in English.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

MAX_PARAMETER = 500
"""Characters of a parameter that are sent."""
MAX_DEPTH = 8
"""Sentences within one another; a deeper one is only text."""


@dataclass(frozen=True, slots=True)
class SentenceInfo:
    """A sentence for an interface that translates it.

    Attributes:
        code: Stable; names the sentence.
        parameters: What stands in it: texts, numbers, or a sentence within it.
    """

    code: str
    parameters: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The sentence as JSON."""
        return asdict(self)


_STEPS: Final = {
    "insert": "Insert a {type} cell {place}",
    "insert_and_run": "Insert and run a {type} cell {place}",
    "insert_new": "Insert a {type} cell",
    "place_at": "as cell {position}",
    "place_end": "at the end",
    "place_after": "after {cell}",
    "place_before": "before {cell}",
    "cell": "{type} cell {position}",
    "cell_position": "cell {position}",
    "change": "Change {cell}{how}",
    "change_and_run": "Change and run {cell}{how}",
    "change_type": ", now {type}",
    "change_outputs_kept": ", outputs kept",
    "change_same_source": ": same source",
    "change_two": "{first}{second}",
    "delete": "Delete {cell}",
    "move": "Move {cell} to position {position}",
    "clear_outputs": "Clear the outputs of {cell}",
    "restore_outputs": ("Restore {count} output of {cell}", "Restore {count} outputs of {cell}"),
    "nothing_to_change": "Nothing to change",
    "changes": ("{count} change", "{count} changes"),
    "changes_and_run": (
        "{count} change, and run the changed code",
        "{count} changes, and run the changed code",
    ),
    "create": ("Create {path} with {count} cell", "Create {path} with {count} cells"),
    "replace_notebook": (
        "Replace {path} by a notebook with {count} cell",
        "Replace {path} by a notebook with {count} cells",
    ),
    "create_for_kernel": (
        "Create {path} for {kernel} with {count} cell",
        "Create {path} for {kernel} with {count} cells",
    ),
    "run_cell": "Run {cell}",
    "run_cells": ("Run {count} cell", "Run {count} cells"),
    "run_fresh": (
        "Run {count} cell in a new kernel, without changing the notebook",
        "Run {count} cells in a new kernel, without changing the notebook",
    ),
    "run_in_new_kernel": ("Run {count} cell in a new kernel", "Run {count} cells in a new kernel"),
    "run_code": "Run code",
    "run_code_in_kernel": "Run code in the notebook's kernel",
    "kernel_of_notebook": "the kernel",
    "kernel_of_id": "the kernel {id}",
    "restart_kernel": "Restart {kernel}. Its variables are lost",
    "interrupt_kernel": "Interrupt {kernel}",
    "interrupt_run": "Interrupt an execution in {kernel}",
    "shut_down_kernel": "Shut down {kernel}. Its variables are lost",
    "restart_first": "Restart the kernel first. Its variables are lost",
    "reset_first": "Reset the session first. Its variables are lost",
    "run_python_in_session": "Run Python code in the session's kernel, in the folder {folder}",
    "run_python_alone": "Run Python code in a new kernel, in the folder {folder}",
    "set_environment": "Set environment variables",
    "call_server_tool": "Call {tool} of the MCP server {server}",
    "call_tool": "Call {tool}",
    "with_argument": "Argument {name}",
    "undo_change": "Undo {entry}: {summary}",
    "undo": ("Undo {count} change", "Undo {count} changes"),
}
"""What a call would do: titles of proposals and of their steps."""

_PROGRESS: Final = {
    "running": "{what} {status}, {seconds} s",
    "running_prints": "{what} {status}, {seconds} s: {line}",
    "running_code": "code",
    "running_cell": "cell {position}",
    "running_part": "{what} {number}/{total}",
}
"""What a call is doing."""

_NOTICES: Final = {
    "attached_error_gone": "An attached error is gone: the cell has none now.",
    "attached_kernel_busy": "The kernel is busy, so the variable {name} was not included.",
    "attached_output_gone": "An attached output is gone: the cell has other outputs now.",
    "attached_unread": "{what} was not included: {why}",
    "attached_variable_gone": "The variable {name} does not exist any more.",
    "compacted": "{agent} has replaced the earlier messages by a summary.",
    "forgotten": "{agent} has lost the earlier messages of this chat.",
    "forgotten_partly": "{agent} has lost a message before this one, whose answer ended early.",
    "session_kernel": "The `python` session's kernel {what}. Its variables are lost.",
    "session_kernel_kept": (
        "The `python` session has another kernel, without its variables: the one before ignored the "
        "interrupt, belongs to a notebook, too, and runs on."
    ),
    "kernel_elsewhere": "{path} has a new kernel. Its former one belongs to another notebook.",
    "kernel_replaced": "The kernel of {path} had died and was replaced. Its variables are lost.",
    "kernel_restarted": "The kernel of {path} was restarted. Its variables are lost.",
    "kernel_died": "The kernel of {path} died. Its variables are lost.",
    "kernel_shut_down": "The kernel of {path} was shut down. Its variables are lost.",
}
"""What a person or an agent has to know."""

_ERRORS: Final = {
    "agent_ended": "Claude's process has ended.",
    "agent_ended_unread": "Claude's process has ended: one of its messages could not be read.",
    "agent_ended_why": "Claude's process has ended: {why}.",
    "agent_ended_starting": "Claude's process ended while starting: {why}.",
    "agent_missing": "Claude's program was not found: {why}.",
    "agent_silent": "Claude's process did not answer within {seconds} s.",
    "agent_not_stopped": "{agent} did not stop in time.",
    "agent_not_interrupted": "Claude did not respond to the interrupt: {why}.",
    "agent_unsupported": "The installed claude-agent-sdk has no `claude` for this platform.",
    "answered_already": "You have no pending request `{request}`.",
    "approval_missing": "You have no standing approval `{approval}`.",
    "call_stopped_turn_over": "The turn ended before this call did.",
    "call_stopped_by_user": "The user stopped this.",
    "certificates_hint": "Check SSL_CERT_FILE and SSL_CERT_DIR.",
    "certificates_unreadable": "The certificates in {file} cannot be read: {why}.",
    "chat_elsewhere": "Another server of this folder is running a turn in this chat.",
    "chat_failed": "The chat failed: {why}",
    "chat_large": "This chat has more than {size} MB.",
    "chat_large_hint": "Start another chat.",
    "chat_missing": "You have no chat `{chat}`.",
    "chats_many": ("{count} chat is running.", "{count} chats are running."),
    "chats_many_hint": "Wait until one ends, or stop one.",
    "code_again_hint": "Try again.",
    "compact_failed": "The chat could not be compacted: {why}.",
    "compact_unsupported": "{agent} cannot compact a chat.",
    "code_cut": "The new source is too long for one answer of the model.",
    "code_cut_hint": "Split the cell, or ask in the chat.",
    "code_many": ("{count} request for code is running.", "{count} requests for code are running."),
    "code_replaced": "A newer request replaced this one.",
    "code_unreadable": "The model did not answer with the source of a cell.",
    "folder_untrusted": "This folder has a file with a key. Trust the folder to use it.",
    "folder_untrusted_hint": (
        "Read it, then trust the folder: in the panel, or by `nb chat --trust-folder` in {folder}."
    ),
    "messages_many": (
        "{count} message of this chat is queued already.",
        "{count} messages of this chat are queued already.",
    ),
    "model_busy": "The provider is busy ({status}): {why}.",
    "model_failed": "The model could not answer: {why}.",
    "model_failed_status": "The model could not answer ({status}): {why}.",
    "model_missing": "Unknown model `{model}`.",
    "model_missing_hint": "Choose one of: {models}.",
    "model_indirect": "{provider} cannot complete code or edit a cell in place.",
    "model_none": "No model is connected: there is no key.",
    "model_not_ready": "{provider} is not configured yet.",
    "model_ready": "Ready.",
    "model_refused": "The provider refused the key ({status}): {why}.",
    "model_sandboxed": (
        "Kernels of this folder run in a sandbox and could have written its file of keys."
    ),
    "instructions_unread": "The project's {file} was not read: {why}",
    "model_sandboxed_hint": "Put the key in the environment, or in {file}.",
    "model_silent": "The model sent nothing for {seconds} s.",
    "model_unset_hint": "Set {names}, in the server's environment.",
    "nothing_to_undo": "There is no change that can be undone.",
    "plan_missing": "This chat has no pending plan of that turn.",
    "proxy_hint": "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY.",
    "proxy_invalid": "The proxy's address is not valid, or this kind of proxy is not supported.",
    "server_ended": "The connection to the MCP server {server} has ended.",
    "server_ended_hint": "Go on without it. The next message connects to it again.",
    "server_failed": "The MCP server {server} failed: {why}.",
    "server_missing": "There is no MCP server `{server}`.",
    "server_not_started": "The MCP server {server} did not start: {why}.",
    "servers_owner": "Only the user who runs this server can change its MCP servers.",
    "servers_forbidden": "MCP servers of your own are switched off here.",
    "server_stopped_turn": "The server stopped during this turn.",
    "stopping": "The server is stopping.",
    "stopping_hint": "Start it again.",
    "tour_hint": "Connect a model in the panel, or set ANTHROPIC_API_KEY in the server's environment.",
}
"""Errors of chats and approvals, and hints that are no class's own."""

_KEYS: Final = {
    "address_invalid": "ANTHROPIC_BASE_URL is not an address such as http://localhost:11434.",
    "address_with_v1": ("ANTHROPIC_BASE_URL ends in /v1: remove it, it is added to every request."),
    "keys_encoding": "{file} is not UTF-8 text.",
    "keys_hint": "Correct this, then try again.",
    "keys_irregular": "{file} cannot be read: it is not a regular file.",
    "keys_large": "{file} has more than {size} bytes.",
    "keys_line": (
        "The file of keys {file} cannot be used: line {line} is not NAME=value, NAME='value' or "
        'NAME="value". A value that begins with `$` needs single quotes.'
    ),
    "keys_linked": "{file} is ignored: it is reached by a symbolic link.",
    "keys_owner": "{file} is ignored: it belongs to another user.",
    "keys_readable": "{file} is not used: others can read it. Run `chmod 600` on it.",
    "keys_unreadable": "{file} cannot be read: {why}.",
    "keys_writable": "{file} is not used: others can write it. Run `chmod 600` on it.",
}
"""Problems of a provider's configuration: of a file of keys, or of an address."""

_CONNECTION: Final = {
    "connect_contact_hint": "Ask {contact} to connect a model.",
    "connect_forbidden": "Connecting a model in the panel is switched off here.",
    "connect_owner": "Only the user who runs this server can connect a model.",
    "connection_field": "The field {field} is missing or invalid.",
    "connection_folder": "{folder} is not private: others can write it, or it is another user's.",
    "connection_unsaved": "The connection cannot be saved in {file}: {why}.",
    "credit_missing": "{host} accepts the key, but the account has no credit.",
    "key_needed": "The stored key was entered for another address.",
    "key_needed_hint": "Enter the key for this address.",
    "key_refused": "{host} refused the key ({status}).",
    "prompt_large": "With the prompt /{name} the message has more than {size} characters.",
    "provider_timeout": "{host} did not answer within {seconds} s.",
    "provider_unreachable": "{host} cannot be reached: {why}.",
    "test_busy": "{host} is busy ({status}).",
    "test_failed": "{host} answered with an error ({status}).",
    "test_model_missing": "{host} has no model `{model}`.",
    "test_model_needed": "{host} does not list its models.",
    "test_model_needed_hint": "Enter the name of a model.",
    "wrong_address": "There is no Messages API at {host} ({status}).",
}
"""Why a model cannot be connected."""

_ROUTES: Final = {
    "body_invalid": "The body is not JSON: {why}.",
    "body_large": "The body is larger than {size} bytes.",
    "body_no_object": "The body is not a JSON object.",
    "body_not_json": "The body must be JSON.",
    "changes_of_another": "Some of these changes are another user's.",
    "changes_of_another_hint": "Undo your own changes only.",
    "disconnected_tab_missing": "You have no disconnected tab with unsaved changes of {path}.",
    "disconnected_tab_missing_hint": "GET this route lists your disconnected tabs.",
    "events_after": "`after` is not an event number.",
    "events_after_hint": "Omit it for the first page.",
    "format_unknown": "Unknown format `{format}`.",
    "format_unknown_hint": "Use markdown or notebook.",
    "method_missing": "There is no {method} at {path}.",
    "notebook_missing": "`notebook` is missing.",
    "notebook_missing_hint": "Give the notebook's path.",
    "origin_refused": (
        "Pages of this origin may not call the server ({origin}); TkAIExtensionApp.allowed_origins "
        "lists others that may."
    ),
    "page_name_invalid": "The parameter `client`, the page's name, is missing or invalid.",
    "person_required": "Only a person can answer this. An agent cannot answer during its turn.",
    "read_denied": "You are not allowed to read.",
    "request_failed": "The request failed with status {status}.",
    "request_failed_why": "The request failed with status {status}: {why}.",
    "route_missing": "There is nothing at {path}.",
    "streams_many": "You have {count} event streams open.",
    "streams_many_hint": (
        "Close some of them, or send the request without `Accept: text/event-stream`."
    ),
    "token_missing": "A token or a login is required.",
    "token_refused": "The server does not accept this token.",
    "bad_request_hint": "Check the request.",
    "forbidden_hint": "Use an allowed origin and a user with the permission.",
    "internal_error_hint": "See the server's log.",
    "method_not_allowed_hint": "See openapi.json for the routes and their methods.",
    "not_acceptable_hint": "Accept a media type of the route in openapi.json.",
    "not_found_hint": "See openapi.json for the routes.",
    "page_stale_hint": (
        "Reload the page: its login is older than the server. Programs must send a token."
    ),
    "too_large_hint": "Send less, or raise TkAIExtensionApp.max_body.",
    "unauthenticated_hint": "Send the server's token: `Authorization: token TOKEN`.",
    "unavailable_hint": "Try again when the server has started.",
    "upgrade_missing": "This route requires the header `Upgrade: {protocol}`.",
    "upgrade_required_hint": "Use a client that can upgrade a connection: `nb` or a page of JupyterLab.",
    "unsupported_media_type_hint": "Send JSON, with `Content-Type: application/json`.",
}
"""Why a route refuses a request, and what to do."""

_VERIFICATION: Final = {
    "output_differs": "{what} differs",
    "output_new": "{what} is new",
    "output_missing": "{what} is missing",
    "output_detail": "{what}: {detail}",
    "output_details": "{what}: {detail} and {more} more",
    "outputs_more": ("{count} more output differs", "{count} more outputs differ"),
    "exception_differs": "the exception differs",
    "exception_elsewhere": "the exception has another place",
    "differences_two": "{first}; {second}",
    "value_changed": "{place}: {stored} is now {new}",
    "value_differs": "{place}: differs",
    "value_missing": "{place}: missing",
    "value_new": "{place}: new",
    "items_changed": "{place}: {stored} items are now {new}",
    "row_new": "row {row} is new",
    "row_missing": "row {row} is missing",
    "row_cells_changed": "row {row}: {stored} cells are now {new}",
    "table_cell_changed": "row {row}, column {column}: {stored} is now {new}",
    "image_broken": "the images differ, and one of them cannot be decoded",
    "image_large": "the images differ, and one of them is too large to compare its pixels",
    "image_animated": "the images differ, and one of them is animated",
    "image_resized": "{stored} pixels are now {new}",
    "image_changed": "{share} of the pixels differ",
    "hidden_order": "Cell {cell} [{run}] ran before cell {above} [{run_above}].",
    "hidden_gap": (
        "Cell {cell} [{run}]: {count} run is not in the notebook, after cell {above} [{run_above}].",
        "Cell {cell} [{run}]: {count} runs are not in the notebook, after cell {above} [{run_above}].",
    ),
    "hidden_gap_first": (
        "Cell {cell} [{run}]: {count} run is not in the notebook, before it.",
        "Cell {cell} [{run}]: {count} runs are not in the notebook, before it.",
    ),
    "hidden_undefined": "Cell {cell} uses {names}, which no cell defines.",
    "hidden_later": "Cell {cell} uses {names}, which only cell {places} below defines.",
    "names_more": "{names} and {more} more",
}
"""What a verification found: differences of outputs, and hidden state."""

SENTENCES: Final[Mapping[str, str | tuple[str, str]]] = {
    **_STEPS,
    **_PROGRESS,
    **_NOTICES,
    **_ERRORS,
    **_KEYS,
    **_CONNECTION,
    **_ROUTES,
    **_VERIFICATION,
}
"""By its code what a sentence is in English; of one with a ``count`` the singular and the plural."""


class Sentence(str):
    """A sentence in English that knows its code and what stands in it.

    Args:
        code: A key of `SENTENCES`.
        parameters: What stands in it; each is in the English text.
    """

    __slots__ = ("code", "depth", "parameters")

    code: str
    depth: int
    parameters: Mapping[str, str | int]

    def __new__(cls, code: str, /, **parameters: str | int) -> Self:
        """Make the English text."""
        english = SENTENCES[code]
        if not isinstance(english, str):
            english = english[parameters["count"] != 1]
        return cls.known(english.format(**parameters), code, parameters)

    @classmethod
    def known(cls, text: str, code: str, parameters: Mapping[str, str | int]) -> Self:
        """Return a sentence whose text is known: another server's, which may be of another version."""
        made = super().__new__(cls, text)
        made.code = code
        made.parameters = {
            name: str(part) if isinstance(part, Sentence) and part.depth == MAX_DEPTH else part
            for name, part in parameters.items()
        }
        inner = (part.depth for part in made.parameters.values() if isinstance(part, Sentence))
        made.depth = max(inner, default=0) + 1
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Reduce a copy to its text: the code is for this process only."""
        return str, (str(self),)


def sentence_info(text: str | None) -> SentenceInfo | None:
    """Return the code and the parameters of a text; None where it is no sentence with a code."""
    if not isinstance(text, Sentence):
        return None
    return SentenceInfo(text.code, {name: _sent(part) for name, part in text.parameters.items()})


def _sent(value: str | int) -> str | int | SentenceInfo:
    if isinstance(value, int):
        return value
    return sentence_info(value) or value[:MAX_PARAMETER]


def sentence_of(text: str, info: Mapping[str, Any] | None) -> str:
    """Return a text as the sentence that `SentenceInfo.as_dict` said it to be."""
    if info is None:
        return text
    parameters = {
        name: value if isinstance(value, str | int) else sentence_of("", value)
        for name, value in info["parameters"].items()
    }
    return Sentence.known(text, info["code"], parameters)
