"""A provider-neutral scripted model: a *policy* maps one chat request to one reply.

The same policy drives both edges: the wire edge (``fake_llm_server``, HTTP on loopback) and the in-process
edge (``scripted_chat``, a LangChain chat model). Ids are a hash of the request and its ordinal, text comes
from a seeded generator, no clock is read: a run can be repeated exactly.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """One chat request; ``messages`` are OpenAI-shaped whatever the provider."""

    messages: list[dict]
    tools: list[dict] = field(default_factory=list)
    forced_tool: str | None = None
    model: str = "scripted"
    response_format: Any = None

    def text(self, *roles: str) -> str:
        return "\n".join(flat(m.get("content")) for m in self.messages if not roles or m["role"] in roles)

    @property
    def schema_name(self) -> str | None:
        """Name of the JSON schema the caller wants back (``response_format``), if any."""
        wanted = self.response_format
        if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
            return None
        return (wanted.get("json_schema") or wanted).get("name")

    @property
    def tool_names(self) -> set[str]:
        """Offered tools; a requested output schema counts as one, so a policy needs one spelling."""
        return {t["name"] for t in self.tools} | ({self.schema_name} if self.schema_name else set())

    @property
    def called(self) -> list[str]:
        """Names of the tools called so far in this conversation, in order."""
        calls = (c for m in self.messages if m["role"] == "assistant" for c in m.get("tool_calls") or [])
        return [c["function"]["name"] for c in calls]

    @property
    def turn(self) -> int:
        """How many assistant messages the conversation already has."""
        return sum(m["role"] == "assistant" for m in self.messages)


@dataclass
class Reply:
    """What the model answers: text, tool calls as (name, arguments), or both."""

    content: str = ""
    tool_calls: list[tuple[str, dict]] = field(default_factory=list)


Policy = Callable[[Request], Reply]


def ask(policy: Policy, request: Request) -> Reply:
    """Call the policy; a reply aimed at a requested output schema becomes JSON text."""
    reply = policy(request)
    if request.schema_name and reply.tool_calls and reply.tool_calls[0][0] == request.schema_name:
        return Reply(json.dumps(reply.tool_calls[0][1]))
    return reply


def flat(content: Any) -> str:
    """The text of a message's content, whichever shape the provider gives it."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(flat(p.get("text", "")) if isinstance(p, dict) else str(p) for p in content)
    return str(content)


class Ids:
    """Ids that repeat: SHA-256 of the request and how often that request was seen before."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def base(self, request: Any) -> str:
        digest = hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()
        with self._lock:
            ordinal = self._seen.get(digest, 0)
            self._seen[digest] = ordinal + 1
        return hashlib.sha256(f"{digest}:{ordinal}".encode()).hexdigest()


def tool_call_ids(base: str, count: int) -> list[str]:
    return [f"call_{base[:18]}{i:02d}" for i in range(count)]


def tokens(text: str) -> int:
    """A stand-in for a tokenizer."""
    return max(1, len(text) // 4)
