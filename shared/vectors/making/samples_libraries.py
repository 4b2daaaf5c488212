"""The classes of other libraries that the Python expressions of ``values.json`` (``libraries``) name."""

from __future__ import annotations

import attrs
import pydantic
import pydantic.v1

__all__ = ["Box", "Old", "pydantic"]


@attrs.define
class Box:
    """A class of attrs."""

    __module__ = "samples"
    a: int
    _b: int


class Old(pydantic.v1.BaseModel):
    """A model of pydantic 1."""

    __module__ = "samples"
    a: int
    secret: pydantic.v1.SecretStr = pydantic.v1.SecretStr("hidden")

    class Config:
        """Keeps what it does not know."""

        extra = "allow"
