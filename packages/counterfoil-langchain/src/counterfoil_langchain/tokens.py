"""What a model says piece by piece, as LangChain tells it: by tokens, by protocol events, or by both at once.

One text, reasoning, refusal or tool call has one channel however it is told, so that what was said has one digest
whether it was streamed, asked for as events or told to a graph's listeners. Only an append happens for each token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from counterfoil.frames import Candidate, channel
from counterfoil.streams import Stream

__all__ = ["Pieces", "reason_of", "why"]

TEXT: Final = channel(0, "text")
REASONING: Final = channel(0, "reasoning")
REFUSAL: Final = channel(0, "refusal")
AUDIO: Final = channel(0, "audio")
DATA: Final = channel(0, "data")

_FINISHED: Final = {
    "content_filter": "content_filter",
    "content-filter": "content_filter",
    "function_call": "tool_calls",
    "guardrail_intervened": "content_filter",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "refusal": "content_filter",
    "safety": "content_filter",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}
"""Providers' reasons, in lower case, as those of a stream; any other is ``stop``."""
_TOOLS: Final = frozenset({"tool_call_chunk", "server_tool_call_chunk"})
_MOST_TOOLS: Final = 1024
"""Tool calls of one answer whose places are remembered."""


class Pieces:
    """The pieces of one answer; ``by_events`` once protocol events tell them.

    A model that is asked for events may tell every piece as a token too, the token first: then events alone count.
    """

    __slots__ = ("_reasoned", "_tools", "add", "by_events", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.add: Callable[[str, str | bytes], None] = stream.add
        self.by_events: bool | None = None
        self._tools: dict[object, str] = {}
        self._reasoned = False

    # -- tokens -------------------------------------------------------------------------------------------------------

    def token(self, token: Any, chunk: Any, told: dict[str, Any]) -> None:
        """A token came, and the chunk it is part of, if there is one."""
        message = info = None
        if chunk is not None:
            fields = chunk.__dict__
            message, info = fields.get("message"), fields.get("generation_info")
            if message is not None and info is None and not told and self.by_events is False:
                fields = message.__dict__  # nearly every piece is a piece of text, and nothing else
                plain = not fields.get("tool_call_chunks") and not fields.get("additional_kwargs")
                if plain and type(token) is str:
                    self.add(TEXT, token)
                    return
        if info is not None or "logprobs" in told:
            found = info.get("logprobs") if type(info) is dict else None
            self._sampled(found or told.get("logprobs"))
        if self.by_events:
            return
        self.by_events = False
        if message is None:
            self._content(token)
            return
        fields = message.__dict__
        extra = fields.get("additional_kwargs")
        if extra:
            self._extra(extra)
        self._content(token)
        for call in fields.get("tool_call_chunks") or ():
            if type(call) is dict:
                self._tool(call, call.get("index"))
                self._text(self._of(call.get("index"), "tool_args"), call.get("args"))

    def _content(self, content: Any) -> None:
        if type(content) is str:
            self.add(TEXT, content)
            return
        for block in content if isinstance(content, list) else ():
            if isinstance(block, str):
                self._text(TEXT, block)
            elif type(block) is dict:
                self._block(block)

    def _block(self, block: dict[str, Any]) -> None:
        """A piece of a content block, in whichever way its provider spells it; tool calls are told beside it."""
        kind = block.get("type")
        if kind in ("text", "text_delta", "output_text"):
            self._text(TEXT, block.get("text"))
        elif kind in ("reasoning", "thinking", "reasoning_content"):
            said = block.get("reasoning") or block.get("thinking") or block.get("reasoning_content")
            self._thought(said.get("text") if type(said) is dict else said)
        elif kind == "refusal":
            self._text(REFUSAL, block.get("refusal"))
        elif kind not in _TOOLS:
            said = block.get("data") or block.get("base64") or block.get("transcript")
            self._text(AUDIO if kind == "audio" else DATA, said)

    def _extra(self, extra: Any) -> None:
        """What has no place in a message's content; each is a text, or an old call of a function."""
        if type(extra) is not dict:
            return
        if type(extra.get("reasoning_content")) is str and not (self.by_events and self._reasoned):
            self._thought(extra["reasoning_content"])
        self._text(REFUSAL, extra.get("refusal"))
        call = extra.get("function_call")
        if type(call) is dict:
            self._text(channel(0, "tool_name", "function_call"), call.get("name"))
            self._text(channel(0, "tool_args", "function_call"), call.get("arguments"))

    # -- protocol events ----------------------------------------------------------------------------------------------

    def event(self, event: Any) -> None:
        """A protocol event came; nothing is taken where tokens told more than can be taken back."""
        if self.by_events is None or (self.by_events is False and self.stream.restart()):
            self.by_events = True
            self._tools.clear()
            self._reasoned = False
        if not self.by_events or not isinstance(event, dict):
            return
        name = event.get("event")
        if name == "content-block-delta":
            self._delta(event.get("delta"), event.get("index"))
        elif name == "content-block-start":
            block = event.get("content") or event.get("content_block")
            if type(block) is not dict:
                return
            if block.get("type") in _TOOLS:
                self._tool(block, event.get("index"))
            elif block.get("type") == "audio" and len(self._tools) < _MOST_TOOLS:
                self._tools["audio", event.get("index")] = AUDIO
        elif name == "message-finish":
            self._extra(event.get("additional_kwargs"))

    def _delta(self, delta: Any, index: object) -> None:
        if type(delta) is not dict:
            return
        kind = delta.get("type")
        if kind == "text-delta":
            self._text(TEXT, delta.get("text"))
        elif kind == "reasoning-delta":
            self._thought(delta.get("reasoning"))
        elif kind == "tool-call-delta":
            self._text(self._of(index, "tool_args"), delta.get("args"))
        elif kind == "data-delta":
            self._text(self._tools.get(("audio", index), DATA), delta.get("data"))

    # -- what both tell -----------------------------------------------------------------------------------------------

    def _text(self, name: str, text: Any) -> None:
        if type(text) is str or type(text) is bytes:
            self.add(name, text)

    def _thought(self, text: Any) -> None:
        self._reasoned = True
        self._text(REASONING, text)

    def _tool(self, call: dict[str, Any], index: object) -> None:
        """A tool call begins (its first piece has its id and its name)."""
        key = call.get("id")
        if type(key) is str and key and len(self._tools) < _MOST_TOOLS:
            self._tools[_place(index)] = key
        self._text(self._of(index, "tool_name"), call.get("name"))

    def _of(self, index: object, kind: str) -> str:
        place = _place(index)
        return channel(0, kind, self._tools.get(place) or f"({place})")

    def _sampled(self, logprobs: Any) -> None:
        """Tokens with their log probabilities: OpenAI's form for chats, and for texts."""
        if type(logprobs) is not dict:
            return
        for name in ("content", "refusal"):
            for one in logprobs.get(name) or ():
                if type(one) is dict:
                    others = one.get("top_logprobs")
                    listed = [one, *(others if type(others) is list else ())]
                    self.stream.sample(0, [_candidate(each) for each in listed if type(each) is dict])
        tokens, chances, tops = (logprobs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
        if type(tokens) is list and type(chances) is list:
            for at, (token, chance) in enumerate(zip(tokens, chances, strict=False)):
                top = tops[at] if type(tops) is list and at < len(tops) else None
                others = list(top.items()) if type(top) is dict else []
                pairs = [(token, chance), *others]
                self.stream.sample(0, [_candidate({"token": one, "logprob": p}) for one, p in pairs])


def _place(index: object) -> object:
    return index if type(index) is int or type(index) is str else ""


def _candidate(one: dict[str, Any]) -> Candidate:
    number, chance, data, text = (one.get(name) for name in ("token_id", "logprob", "bytes", "token"))
    said: bytes | None = None
    if type(data) is list and all(type(byte) is int and 0 <= byte < 256 for byte in data):
        said = bytes(data)
    elif type(text) is str:
        said = text.encode("utf-8", "surrogatepass")
    return (
        number if type(number) is int else None,
        float(chance) if type(chance) in (int, float) else None,  # type: ignore[arg-type]
        said,
    )


def reason_of(finished: object, *, tools: bool = False) -> str:
    """Why a stream ended, by its provider's word for it, or by whether it ended in calls of tools."""
    if type(finished) is str and finished:
        return _FINISHED.get(finished.lower(), "stop")
    return "tool_calls" if tools else "stop"


def why(error: BaseException) -> str:
    """Why a stream ended that raised: nobody read on, it was cancelled, or it failed."""
    if isinstance(error, GeneratorExit):
        return "abandoned"
    return "cancelled" if type(error).__name__ in ("CancelledError", "KeyboardInterrupt") else "error"
