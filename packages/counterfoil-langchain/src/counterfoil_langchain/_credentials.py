"""What names and texts give a credential away, for ``redact``."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from typing import Any, Final

_RULE: Final = "credential field"
_EXACT: Final = frozenset({"authentication", "bearer", "cookie", "jwt", "token"})
_ENDS: Final = (
    "accesskey",
    "accesskeyid",
    "accountkey",
    "apikey",
    "assertion",
    "authorization",
    "connectionstring",
    "credential",
    "credentialjson",
    "credentialsjson",
    "encryptionkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "serviceaccount",
    "serviceaccountinfo",
    "serviceaccountjson",
    "serviceaccountkey",
    "setcookie",
    "signingkey",
    "subscriptionkey",
)
"""Read without case and separators, digits and plural: ``X-Api-Key``, ``openai_api_key``, ``apiKeys`` end alike."""
_WEAK_ENDS: Final = ("auth", "token")
"""A number or a flag under these is a count or a switch."""
_COUNTED: Final = frozenset(
    "added additional allowed audio bad banned begin bos budget cached cls completion continuation decoder end eos "
    "fill first forced image input last mask max middle min new next num output pad page pagination per prediction "
    "prefix prompt reasoning sep special start stop suffix suppress text thinking total unk usage video".split()
)
"""Before ``token`` these speak of text and not of access."""
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_QUERY_NAMES: Final = frozenset({"code", "key", "sig", "signature"})
_NAMESPACES: Final = frozenset(
    {
        "$defs",
        "args",
        "definitions",
        "dependentSchemas",
        "parameterDefinitions",
        "parameter_definitions",
        "parameters",
        "patternProperties",
        "properties",
    }
)
"""Under these a JSON Schema keeps names of its own: a parameter called ``password`` is no password."""
_SCHEMA: Final = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_TEXTS: Final = frozenset(
    "content default description input instructions messages pattern prompt prompts "
    "system system_prompt template text title".split()
)
"""Under these is text of the application's: names still count, what a text begins with does not."""
_KEPT: Final = frozenset(
    "bad_words const dependentRequired enum examples input_examples logit_bias required stop stop_sequences stop_words "
    "token_usage usage usage_metadata".split()
)
"""Under these keys are words, ids or counters, never settings."""
_QUERIES: Final = frozenset({"defaultquery", "extraquery", "queryparameters", "queryparams"})
_NAMING: Final = ("name", "key", "header", "header_name")
_NAMED: Final = ("value", "values", "val", "header_value")
_HEADERS_KEPT: Final = re.compile(
    r"accept.*|age|allow|alt-svc|anthropic-(?!.*key).*|cache-control|cf-ray|connection|content-.*|date|etag|expires|host|"
    r"http-referer|openai-.*|origin|referer|retry-after|server|traceparent|user-agent|vary|via|x-request|x-title|"
    r"x-stainless-.*|(.*-)?(correlation-id|processing-ms|ratelimit-.*|request-?id|trace-?id|version)",
)
"""Headers that say how, not who; in others an unknown name may carry a key."""
_SCHEME: Final = re.compile(r"\s*(bearer|basic)\s+(\S+)(.*)", re.I | re.S)
_LINE: Final = re.compile(r"\s*((?:proxy-)?authorization|(?:x-)?api-key|(?:set-)?cookie)\s*:\s*\S", re.I)
_ANY_LINE: Final = re.compile(r"^\s*([\w.-]+)\s*:\s*\S", re.M)
_FLAT: Final = frozenset({"apikey", "authorization", "cookie", "proxyauthorization", "setcookie", "xapikey"})
_USERINFO: Final = re.compile(r"(://)[^/?#\s]*@")
_ASSIGNED: Final = re.compile(r"""(^|[?&#;\s])([\w.%~\[\]-]+)=("[^"]*"|'[^']*'|[^&#;\s]+)""")
_GONE: Final = "REDACTED"
_DEPTH: Final = 30
_MEMO: Final = 512
_JSON: Final = 1 << 20
_SCALARS: Final = frozenset({int, float, bool, type(None)})

# How a value is looked at, by the name it stands under.
_PLAIN_MODE: Final = 0
_NAMES: Final = 1
_HEADERS: Final = 2
_QUERY: Final = 3
_QUIET: Final = 4
_KEEP: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class _Name:
    """What a field's name says of what stands under it."""

    rule: str | None
    weak: bool
    opens: int | None
    flat: bool
    header: bool
    query: bool


def _read(key: str, extra: str | None) -> _Name:
    plain = re.sub(r"[-_.\s]", "", key.lower()).rstrip("0123456789")
    single = plain[:-1] if plain.endswith("s") else plain
    strong = not _EXACT.isdisjoint((plain, single)) or plain.endswith(_ENDS) or single.endswith(_ENDS)
    weak = not strong and single.endswith(_WEAK_ENDS)
    if single == "token" and plain != "token":
        strong, weak = False, True
    if weak and single.endswith("token"):
        words = [word.lower() for word in _WORDS.findall(key)]
        weak = single[:-5] not in _COUNTED and (len(words) < 2 or words[-2] not in _COUNTED)
    opens = None
    if key in _NAMESPACES:
        opens = _NAMES
    elif key in _KEPT or "logprob" in plain:
        opens = _KEEP
    elif key in _TEXTS:
        opens = _QUIET
    elif plain.endswith(("headers", "header")):
        opens = _HEADERS
    elif plain in _QUERIES:
        opens = _QUERY
    rule = extra or (_RULE if strong or weak else None)
    dashed = key.strip().lower().replace("_", "-")
    return _Name(
        rule=rule,
        weak=weak and extra is None,
        opens=opens,
        flat=plain in _FLAT,
        header=_HEADERS_KEPT.fullmatch(dashed) is not None,
        query=plain in _QUERY_NAMES,
    )


def _is_scheme(scheme: str, first: str, rest: str) -> bool:
    """Whether a text that begins with an authorization scheme is one, and no sentence."""
    if scheme.lower() == "bearer":
        return scheme == "Bearer" or not rest.strip()
    if rest.strip():
        return False
    try:
        return b":" in base64.b64decode(first + "=" * (-len(first) % 4), validate=True) or not first.isalpha()
    except (ValueError, binascii.Error):
        return not first.isalpha()


def _is_schema(value: Any) -> bool:
    """Whether a value under a parameter's name is its schema, and not what the parameter is set to."""
    if type(value) is bool:
        return True
    if type(value) is not dict:
        return False
    if value.keys() == {"$map"} and type(value["$map"]) is list:
        value = {text: one for key, one in value["$map"] if (text := _text_of(key)) is not None}
    if not value:
        return True
    if any(key in value for key in _NAMED):
        return False
    kind = value.get("type", value.get("type_"))
    if type(kind) is str:
        return kind.lower() in _TYPES
    if type(kind) in (list, int):
        return True
    return not _SCHEMA.isdisjoint(value) or type(value.get("description")) is str or "properties" in value


def _text_of(value: Any) -> str | None:
    """A name or text as ``str``, also where it is bytes or in a canonical form of these."""
    if isinstance(value, str):
        return value
    if type(value) is bytes:
        return value.decode("latin-1")
    if type(value) is dict:
        if value.keys() == {"$bytes"} and type(value["$bytes"]) is str:
            try:
                return base64.b64decode(value["$bytes"]).decode("latin-1")
            except ValueError:
                return None
        if value.keys() == {"$substr", "value"} and type(value["value"]) is str:
            return str(value["value"])
    return None


def _mark(rule: str) -> dict[str, Any]:
    return {"$redacted": {"rule": rule}}
