"""A LangChain message has the normal form that the golden vectors give it, by every way to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import langchain_core.messages
import pytest

from counterfoil import canonical, digest, values
from counterfoil.capture import Capture
from counterfoil_langchain import encode

FILE = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "values.json"
MESSAGES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="ascii"))["messages"]
messages = pytest.mark.parametrize("case", MESSAGES, ids=[case["name"] for case in MESSAGES])


@pytest.fixture(autouse=True)
def _registered() -> None:
    encode.register()


def made(case: dict[str, Any]) -> Any:
    names = {name: getattr(langchain_core.messages, name) for name in langchain_core.messages.__all__}
    return eval(case["python"], names)  # noqa: S307 - our own file


@messages
def test_a_message_has_its_normal_form(case: dict[str, Any]) -> None:
    value = values.encode(made(case))
    assert canonical.dumps(value).decode() == case["value"]
    assert digest.Reducer().reference(value).to_dict() == case["reference"]


@messages
def test_a_message_has_the_same_reference_when_captured(case: dict[str, Any]) -> None:
    capture = Capture(lambda sha256, data: True)
    for _ in range(2):  # the second time from what the first remembered
        assert capture.reference(made(case)).to_dict() == case["reference"]
        listed = digest.Reducer().reference([json.loads(case["value"])] * 2)
        assert capture.reference([made(case), made(case)]) == listed
