"""Results of tools: text for a model, and JSON for a program."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic_core import PydanticSerializationError

from tk_ai_extension.model.encoding import encodable, encodable_text
from tk_ai_extension.model.json_values import Json


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model: base64 data and its MIME type (image/png or image/jpeg)."""

    data: str
    mime: str


class Result(BaseModel):
    """Base class of every tool's result.

    The fields are the structured result; their JSON schema is the tool's output schema. `as_text`
    renders the same result compactly, with all that a model needs.

    >>> class Greeting(Result):
    ...     name: str
    ...
    ...     def as_text(self) -> str:
    ...         return f"Hello, {self.name}."
    >>> greeting = Greeting(name="Ada", notices=["The kernel was restarted."])
    >>> print(greeting.full_text())
    Note: The kernel was restarted.
    Hello, Ada.
    >>> Greeting(name="Ada").structured()
    {'name': 'Ada'}
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    notices: list[str] = Field(default_factory=list[str])
    """Notes for the caller, for example that a kernel's variables are lost."""

    _images: tuple[Image, ...] = PrivateAttr(default=())

    def as_text(self) -> str:
        """Return the result as compact text, without the notices."""
        raise TypeError(f"{type(self).__name__} has no text")

    @property
    def is_error(self) -> bool:
        """Whether the result reports a failure, for example an execution that did not end ok."""
        return False

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the result."""
        return self._images

    def with_images(self, images: tuple[Image, ...]) -> Result:
        """Set the images and return the same result."""
        self._images = images
        return self

    def full_text(self) -> str:
        """Return the compact text, after the notices."""
        notes = (f"Note: {notice}" for notice in self.notices)
        return encodable_text("\n".join([*notes, self.as_text()]))

    def structured(self) -> Json:
        """Return the result as JSON values, without None values and empty notices."""
        try:
            data: Json = json.loads(self.model_dump_json(exclude_none=True))
        except (PydanticSerializationError, UnicodeError):  # A text with a lone surrogate.
            data = encodable(self.model_dump(mode="json", exclude_none=True))
        if not self.notices:
            del data["notices"]
        return data
