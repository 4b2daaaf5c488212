"""Credentials are in no byte of the evidence, wherever a framework carries them; what only looks like one is kept."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from graphkit import Scripted, ai, intact
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel, SecretStr

import counterfoil
from counterfoil_langchain import Handler
from counterfoil_langchain.redact import Redactor

SECRET = "sk-planted-4711"
REDACTED = {"$redacted": {"rule": "credential field"}}


def stored(evidence: Path) -> str:
    """Everything anybody can read out of the evidence, decompressed: records, statements and stored bytes."""
    reader = counterfoil.read(evidence)
    parts = [entry.body_bytes for entry in reader.entries()]
    parts += [reader.blob(sha256) for sha256, _ in reader.blobs()]
    return b"\n".join(parts).decode("utf-8", "replace")


class Headers(OrderedDict[str, str]):
    """As HTTP libraries have them."""


@dataclasses.dataclass
class Options:
    region: str
    api_key: str


class Settings(BaseModel):
    openai_api_key: str
    headers: dict[str, str]


class Failed(Exception):
    def __init__(self, request: Any) -> None:
        super().__init__("denied")
        self.request = request


PLANTED: dict[str, Any] = {
    "api_key": SECRET,
    "openai_api_key": SecretStr(SECRET),
    "openAIApiKey": SECRET,
    "azure_ad_token": SECRET,
    "aws_secret_access_key": SECRET,
    "x-api-key": SECRET,
    "Ocp-Apim-Subscription-Key": SECRET,
    "password": 4711_4711,
    "credentials": {"inner": SECRET},
    "extra_headers": {"Authorization": f"Bearer {SECRET}", "X-Request": "kept"},
    "extra_headers_object": Headers({"Cookie": SECRET, "X-Request": "kept"}),
    "header_pairs": [("authorization", SECRET), ("x-request", "kept")],
    "header_lists": [["Set-Cookie", SECRET]],
    "options": Options("kept", SECRET),
    "settings": Settings(openai_api_key=SECRET, headers={"authorization": SECRET}),
    "nested": [{"deep": ({"token": SECRET},)}],
    1: {"api_key": SECRET},
    "$odd": {"api_key": SECRET},
}


def test_settings_of_a_model_call(handler: Handler, evidence: Path) -> None:
    tools = [
        {
            "type": "mcp",
            "server_url": "http://127.0.0.1",
            "headers": {"Authorization": SECRET},
            "authorization": SECRET,
        }
    ]
    model = Scripted(script=[ai("ok")], extra={"region": "kept", "stop_token": "</s>", "max_tokens": 9})
    named = {key: value for key, value in PLANTED.items() if isinstance(key, str) and key != "$odd"}
    for _ in range(2):
        model.bind(**named, other=PLANTED, tools=tools).invoke("x", {"callbacks": [handler]})
    handler.close()
    assert SECRET not in stored(evidence)
    assert str(4711_4711) not in stored(evidence)
    reader = intact(evidence)
    request = reader.value(reader.calls()[0].request)
    params = request["params"]
    for name in ("api_key", "openAIApiKey", "azure_ad_token", "x-api-key", "password", "credentials"):
        assert params[name] == REDACTED
    assert params["extra_headers"] == {"Authorization": REDACTED, "X-Request": "kept"}
    assert params["options"]["fields"] == {"api_key": REDACTED, "region": "kept"}
    assert (params["region"], params["stop_token"], params["max_tokens"]) == ("kept", "</s>", 9)
    assert request["tools"][0]["server_url"] == "http://127.0.0.1"
    first, second = reader.calls()
    assert first.request == second.request


def test_what_the_provider_answers(handler: Handler, evidence: Path) -> None:
    answer = ai("ok")
    answer.response_metadata["headers"] = {"set-cookie": SECRET, "x-request-id": "kept"}
    Scripted(script=[answer]).invoke("x", {"callbacks": [handler]})
    handler.close()
    text = stored(evidence)
    assert SECRET not in text
    assert "kept" in text


def test_exceptions_tell_what_they_say_and_not_what_they_carry(handler: Handler, evidence: Path) -> None:
    error = Failed({"headers": {"Authorization": SECRET}})
    error.__cause__ = Failed(SECRET)
    with pytest.raises(Failed):
        Scripted(script=[error]).invoke("x", {"callbacks": [handler]})
    handler.close()
    text = stored(evidence)
    assert SECRET not in text
    assert "denied" in text


def test_components_and_configuration_on_their_way_through_a_chain(handler: Handler, evidence: Path) -> None:
    class Client(Scripted):
        api_key: SecretStr
        default_headers: dict[str, str]

    client = Client(
        api_key=SecretStr(SECRET), default_headers={"Authorization": SECRET, "X-Kept": "kept"}, script=[]
    )
    config: dict[str, Any] = {
        "callbacks": [handler],
        "configurable": {"api_key": SECRET, "thread_id": "t"},
        "metadata": {"api_key": SECRET, "authorization": SECRET},
        "tags": [SECRET],
    }
    given = {"model": client, "chain": client | RunnableLambda(str)}
    RunnableLambda(lambda given: [given["model"]]).invoke(given, config)
    handler.close()
    text = stored(evidence)
    assert SECRET not in text
    assert "kept" in text


def test_environment_variables(handler: Handler, evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    RunnableLambda(lambda value: value).invoke(1, {"callbacks": [handler]})
    handler.close()
    text = stored(evidence)
    assert "OPENAI_API_KEY" in text
    assert SECRET not in text


def test_a_schema_may_have_a_parameter_called_password(handler: Handler, evidence: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "password": {"type": "string", "description": "kept"},
            "token": {"type": "object", "properties": {"secret": {"enum": ["kept"]}}},
        },
        "required": ["password", "token"],
        "$defs": {"Credentials": {"type": "string"}},
    }
    tools = [{"type": "function", "function": {"name": "log_in", "parameters": schema}}]
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    Scripted(script=[ai("ok")]).bind(tools=tools, response_format=form).invoke("x", {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    request = reader.value(reader.calls()[0].request)
    kept = request["tools"][0]["function"]["parameters"]
    told = dict(kept["$map"]) if "$map" in kept else kept
    assert told["properties"] == schema["properties"]
    assert told["required"] == schema["required"]
    assert "$redacted" not in str(request)


def test_prompts_and_tool_data_are_kept_as_they_are(handler: Handler, evidence: Path) -> None:
    Scripted(script=[ai("ok")]).invoke(f"my api_key is {SECRET}", {"callbacks": [handler]})
    RunnableLambda(lambda value: value).invoke(
        {"api_key": "of the application's own"}, {"callbacks": [handler]}
    )
    handler.close()
    assert SECRET in stored(evidence)
    assert "of the application's own" in stored(evidence)


def test_settings_that_contain_themselves(handler: Handler, evidence: Path) -> None:
    ring: dict[str, Any] = {"api_key": SECRET}
    ring["ring"] = [ring, ring]
    deep: Any = {"api_key": SECRET}
    for _ in range(90):
        deep = {"in": deep}
    Scripted(script=[ai("ok")], extra={"ring": ring, "deep": deep}).invoke("x", {"callbacks": [handler]})
    handler.close()
    assert SECRET not in stored(evidence)
    intact(evidence)


def test_a_plugins_rule_hides_a_field_of_its_own() -> None:
    redactor = Redactor([("Tenant", "house rule")])
    cleaned = redactor.clean({"tenant": "acme", "tenants": "kept"})
    assert cleaned["tenant"].rule == "house rule"
    assert cleaned["tenants"] == "kept"
    harmless = {"a": [1, {"b": None, "token": None}]}
    assert redactor.clean(harmless) is harmless
    assert redactor.clean(harmless) is harmless
