"""Credentials are in no byte of the evidence, wherever a framework carries them; what only looks like one is kept."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from graphkit import Scripted, ai, intact
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel, SecretStr

import counterfoil
from counterfoil import values
from counterfoil_langchain import Handler
from counterfoil_langchain.redact import Redactor, register

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
        api_key=SecretStr(SECRET), default_headers={"Authorization": SECRET, "User-Agent": "kept"}, script=[]
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


def hidden(value: Any) -> str:
    """A setting as it is stored."""
    register()
    return json.dumps(values.encode(Redactor().clean(value)))


@pytest.mark.parametrize(
    "name",
    [
        "hf_token",
        "hfToken",
        "HFToken",
        "X-Vault-Token",
        "x-authorization-token",
        "pwd",
        "db.pwd",
        "api.key",
        "API KEY",
        "api_key_2",
        "proxy_auth",
        "basic_auth",
        "basicAuth",
        "client_assertion",
        "client-secret",
        "credentials_json",
        "service_account",
        "serviceAccount",
        "backend_token",
        "api_keys",
        "hf_tokens",
        "client_secrets",
        "cookies",
        b"x-api-key",
    ],
)
def test_names_of_credentials(name: Any) -> None:
    found = hidden({"deep": [{name: SECRET, "region": "kept"}]})
    assert SECRET not in found
    assert "kept" in found
    assert SECRET not in hidden([(name, SECRET)])


@pytest.mark.parametrize(
    "value",
    [
        {"headers": [(b"authorization", f"Bearer {SECRET}".encode()), (b"accept", b"kept")]},
        {"headers": {b"Authorization": f"Bearer {SECRET}".encode(), b"Accept": "kept"}},
        {"pairs": [(b"authorization", SECRET.encode()), "kept"]},
        {"headers": [{"name": "Authorization", "value": SECRET}, {"name": "Accept", "value": "kept"}]},
        {"fields": [{"key": "api_key", "value": SECRET, "note": "kept"}]},
        {"headers": [f"Authorization: Bearer {SECRET}", "Accept: kept"]},
        {"headers": ["Accept", "kept", "X-Mine", SECRET]},
        {"headers": f"Accept: kept\r\nX-Mine: {SECRET}", "beside": "kept"},
        {"headers": ("Authorization", f"Bearer {SECRET}"), "beside": "kept"},
        {"one": ["Authorization", SECRET], "two": ["kept", "kept"]},
        {"headers": [("authorization", SECRET), ("x", "y", "kept-not"), ("accept", "kept")]},
        {"odd": [("authorization", SECRET), ("x", "y", "z"), "kept"]},
        {"headers": frozenset({("authorization", SECRET), ("accept", "kept")})},
        {"properties": {"password": {"value": SECRET}, "region": "kept"}},
        {"properties": {"password": {"type": "string", "value": SECRET}, "region": "kept"}},
        {"properties": {"token": [SECRET], "region": "kept"}},
        {"base_url": f"https://user:{SECRET}@kept/?api_key={SECRET}&key={SECRET}&a=b"},
        {"base_url": f"https://kept/#access_token={SECRET}".encode(), "beside": "kept"},
        {"dsn": f"Server=kept;AccountKey={SECRET}==;Timeout=5"},
        {"extra_query": {"key": SECRET, "page": "kept"}},
        {"extra_query": [{"key": "api_key", "value": SECRET}, {"key": "a", "value": "kept"}]},
        {"extra_body": json.dumps({"api_key": SECRET, "a": "kept"})},
        {"extra_body": json.dumps({"in": json.dumps([{"headers": {"X-Mine": SECRET}}]), "a": "kept"})},
        {"extra_headers": {"X-Mine": SECRET, "X-Request-ID": "kept", "Content-Type": "kept"}},
        {"upstream": f"Bearer {SECRET}", "beside": "kept"},
        {"upstream": f"Basic {SECRET}", "beside": "kept"},
        {"upstream": "Basic c2stcGxhbnRlZC00NzExOng=", "beside": "kept"},
    ],
)
def test_shapes_of_credentials(value: Any) -> None:
    found = hidden(value)
    assert SECRET not in found
    assert "c2stcGxhbnRlZC00NzEx" not in found  # the same in base64, as bytes are stored
    assert "QmVhcmVyIHNrLXBsYW50" not in found
    assert "kept" in found or "a2VwdA" in found


def test_only_the_secret_part_of_a_url_is_replaced() -> None:
    url = f"https://user:{SECRET}@host:8/v1?api_key={SECRET}&api-version=2"
    assert Redactor().clean({"base_url": url}) == {
        "base_url": "https://REDACTED@host:8/v1?api_key=REDACTED&api-version=2"
    }


DEFINED: dict[str, Any] = {
    "type": "object",
    "description": "Bearer tokens",
    "properties": {
        "password": {"type": "string", "description": "Basic secret1", "default": "Bearer x"},
        "headers": {"type": "object", "description": "as sent"},
        "api_keys": {"type": "array", "items": {"type": "string"}},
        "secret": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "pwd": {},
        "token": True,
        "value": {"type": "string"},
        "key": {"enum": ["Bearer x", "https://a:b@c"]},
    },
    "required": ["authorization", "password"],
    "dependentRequired": {"password": ["token"]},
    "examples": [{"password": "example"}],
}


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 9, "max_completion_tokens": 9, "maxOutputTokens": 9, "max-tokens": "9"},
        {
            "token_usage": {"total": 3},
            "usage": {"prompt_tokens": 3},
            "completion_tokens": 3,
            "cost_per_token": 0.1,
        },
        {"logit_bias": {"token": -1, "password": 5}, "top_logprobs": 5, "tokenizer": "o200k"},
        {"logprobs": {"content": [{"token": "Bearer x", "logprob": -0.1, "bytes": [1]}]}},
        {"prompt_cache_key": "p", "idempotency_key": "i", "key": "k", "model": "basic-auth-1"},
        {
            "eos_token": "</s>",
            "stop_token": "</s>",
            "pad_token_id": 3,
            "next_page_token": "n",
            "use_auth": True,
        },
        {"stop": ["Authorization", "Bearer x"], "stop_sequences": ["password: x", "Basic c3Q6eA=="]},
        {"metadata": {"user_id": "u-1", "session_id": "s", "thread_id": "t"}, "service_tier": "basic plan"},
        {"plan": "Basic plan", "note": "Basic calculator of 2 numbers", "empty": ["", "key", "other"]},
        {"tool_choice": {"type": "function", "name": "get_token"}, "tools": [{"input_schema": DEFINED}]},
        {"response_format": {"json_schema": {"name": "credentials", "schema": DEFINED}}},
        {
            "parameter_definitions": {
                "password": {"type": "string", "description": "d"},
                "token": {"enum": []},
            }
        },
        {"headers": {"Content-Type": "a", "Accept": "b", "User-Agent": "c", "x-request-id": "d"}},
        {"base_url": "https://host:8/v1?api-version=2#part", "server": "http://h/@user"},
        {"extra_body": '{"max_tokens": 3,  "a": [1]}', "text": "{not json"},
        {"instructions": "Bearer of news", "system": "Basic rule1"},
    ],
)
def test_what_only_looks_like_a_credential_is_kept(value: Any) -> None:
    assert Redactor().clean(value) is value
    register()
    behind = OrderedDict(value)
    assert values.encode(Redactor().clean({"in": behind, 1: 2})) == values.encode({"in": behind, 1: 2})


def test_deep_json_text_is_looked_at_to_its_end() -> None:
    deep = '{"a":' * 80 + "%s" + "}" * 80
    assert SECRET not in hidden({"extra_body": deep % json.dumps({"api_key": SECRET})})
    harmless = {"extra_body": deep % "1"}
    assert Redactor().clean(harmless) is harmless
