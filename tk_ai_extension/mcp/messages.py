"""Messages from clients: parsed and checked before the SDK gets them, whatever the transport.

The SDK drops an invalid message of a line without a response, treats a request with an invalid id as
a notification, lets a second request with the id of a running one take its place, and refuses lone
surrogates, which JavaScript writes for half an emoji.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from mcp.shared.dispatcher import coerce_request_id
from pydantic_core import from_json

from tk_ai_extension.model import encoding
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json

HINT = "See the JSON-RPC 2.0 specification."


class InvalidMessage(ValueError):
    """Data that is not a message.

    Attributes:
        code: JSON-RPC's code: it is not JSON, or not a message.
        message: What is wrong, for the client.
        found: The JSON value; None if it is not JSON.
        hint: What to do.
    """

    def __init__(self, code: int, message: str, found: Any = None, hint: str = HINT) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.found = found
        self.hint = hint

    def typed(self) -> InvalidArguments:
        """Return the typed error."""
        return InvalidArguments(self.message, hint=self.hint)

    def response(self) -> bytes | None:
        """Return the JSON-RPC error, with the id if there is one; None for an invalid response."""
        if _is_response(self.found):
            return None  # two programs could send each other errors without end
        is_object = isinstance(self.found, dict)
        given = self.found.get("id") if is_object else None
        is_id = isinstance(given, str | int | float) and not isinstance(given, bool)
        error = {
            "code": self.code,
            "message": self.message,
            "data": {"error": self.typed().as_dict()},
        }
        response = {"jsonrpc": "2.0", "id": given if is_id else None, "error": error}
        return json.dumps(response).encode()


class RunningRequests:
    """The requests of a session or connection that are being answered, by id."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()

    def begin(self, message: Json) -> types.RequestId | None:
        """Add a message that expects a response, and return its id; None for any other message.

        Raises:
            InvalidMessage: a request with its id is being answered.
        """
        if "method" not in message or "id" not in message:
            return None
        request_id: types.RequestId = message["id"]
        if coerce_request_id(request_id) in self._ids:
            raise InvalidMessage(
                types.INVALID_REQUEST,
                f"A request with the id {request_id} is already running.",
                message,
                hint="Use a unique id for each request. A call goes on when its connection is lost.",
            )
        self._ids.add(coerce_request_id(request_id))
        return request_id

    def end(self, request_id: types.RequestId | None) -> None:
        """Remove a request that is answered, or is not going to be; None is no request's id."""
        if request_id is not None:
            self._ids.discard(coerce_request_id(request_id))


def read_message(data: bytes) -> tuple[bytes, Json]:
    """Return a message as JSON that the SDK can parse, and the message.

    Raises:
        InvalidMessage.
    """
    try:
        message = from_json(data)
    except ValueError:
        data, message = _read_again(data)
    _check(message)
    return data, message


def _read_again(data: bytes) -> tuple[bytes, Any]:
    """Parse what the SDK's parser refuses, and replace lone surrogates."""
    try:
        found = json.loads(data.decode())
    except encoding.MALFORMED as error:
        raise InvalidMessage(types.PARSE_ERROR, "The message is not JSON.") from error
    try:
        text = encoding.dumps(encoding.encodable(found)).encode()
        return text, from_json(text)
    except encoding.MALFORMED as error:
        raise InvalidMessage(
            types.INVALID_REQUEST, "The message is nested too deeply.", found
        ) from error


def _check(message: Any) -> None:
    def require(holds: bool, said: str) -> None:
        if not holds:
            raise InvalidMessage(types.INVALID_REQUEST, said, message)

    require(isinstance(message, Mapping), "A message must be one JSON object.")
    found = cast("Json", message)
    require(found.get("jsonrpc") == "2.0", '`jsonrpc` must be "2.0".')
    is_response = _is_response(found)
    require(is_response or isinstance(found.get("method"), str), "`method` must be a string.")
    params = found.get("params")
    require(params is None or isinstance(params, Mapping), "`params` must be an object.")
    if "id" in found:
        identifier = found["id"]
        is_id = isinstance(identifier, str | int) and not isinstance(identifier, bool)
        nobody = is_response and identifier is None
        require(is_id or nobody, "`id` must be a string or an integer.")


def _is_response(message: Any) -> bool:
    return (
        isinstance(message, Mapping)
        and "method" not in message
        and ("result" in message or "error" in message)
    )
