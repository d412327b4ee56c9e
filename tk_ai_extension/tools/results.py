"""What tools answer: one value with two readings, text for a model and JSON for a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from tk_ai_extension.model.encoding import encodable, encodable_text


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for a model: base64 data and its MIME type (image/png or image/jpeg)."""

    data: str
    mime: str


class Result(BaseModel):
    """The base of every tool's answer.

    The fields are the structured reading (its JSON schema is the tool's output schema); `as_text` is
    the compact one, and holds all that a model needs.
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    notices: list[str] = Field(default_factory=list[str])
    """What the caller has to know besides, for example that a kernel's variables are gone."""

    _images: tuple[Image, ...] = PrivateAttr(default=())

    def as_text(self) -> str:
        """The compact reading, without the notices."""
        raise TypeError(f"{type(self).__name__} has no text")

    @property
    def is_error(self) -> bool:
        """Whether the answer reports a failure (an execution that ended other than ok)."""
        return False

    @property
    def images(self) -> tuple[Image, ...]:
        """Pictures that belong to the answer."""
        return self._images

    def with_images(self, images: tuple[Image, ...]) -> Result:
        """The same answer with pictures."""
        self._images = images
        return self

    def full_text(self) -> str:
        """The compact reading, notices first."""
        notes = (f"Note: {notice}" for notice in self.notices)
        return encodable_text("\n".join([*notes, self.as_text()]))

    def structured(self) -> dict[str, Any]:
        """The structured reading as JSON values; what is None and empty notices are left out."""
        data: dict[str, Any] = encodable(self.model_dump(mode="json", exclude_none=True))
        if not self.notices:
            del data["notices"]
        return data
