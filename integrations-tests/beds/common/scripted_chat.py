"""The in-process edge: a LangChain chat model that answers with a policy."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from scripted import Ids, Policy, Request, ask, tokens, tool_call_ids

CHUNK = 200


def make_scripted_chat(
    policy: Policy, model: str, callbacks: Any, ids: Ids, log: list[dict]
) -> BaseChatModel:
    """A chat model named `model`; every exchange is appended to `log` as the wire edge's server does."""

    class ScriptedChat(BaseChatModel):
        model_name: str = "scripted"

        @property
        def _llm_type(self) -> str:
            return "scripted-chat"

        @property
        def _identifying_params(self) -> dict:
            return {"model_name": self.model_name}

        def bind_tools(self, tools, *, tool_choice=None, **kwargs):
            return self.bind(
                tools=[convert_to_openai_tool(t) for t in tools], tool_choice=tool_choice, **kwargs
            )

        def _answer(self, messages, kwargs) -> AIMessage:
            sent = convert_to_openai_messages(messages)
            tools = kwargs.get("tools") or []
            choice = kwargs.get("tool_choice")
            forced = (choice.get("function") or {}).get("name") if isinstance(choice, dict) else choice
            forced = None if forced in ("auto", "none") else forced
            functions = [t.get("function", t) for t in tools]
            reply = ask(policy, Request(sent, functions, forced, self.model_name))
            base = ids.base([sent, functions, forced])
            call_ids = tool_call_ids(base, len(reply.tool_calls))
            calls = [
                {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}
                for (name, arguments), call_id in zip(reply.tool_calls, call_ids, strict=True)
            ]
            request = {"model": self.model_name, "messages": sent, "tools": tools, "tool_choice": choice}
            log.append({"request": request, "response": {"content": reply.content, "tool_calls": calls}})
            asked, given = tokens(json.dumps(sent)), tokens(reply.content + json.dumps(calls))
            return AIMessage(
                content=reply.content,
                tool_calls=calls,
                id=f"scripted-{base[:24]}",
                response_metadata={
                    "model_name": self.model_name,
                    "finish_reason": "tool_calls" if calls else "stop",
                },
                usage_metadata={"input_tokens": asked, "output_tokens": given, "total_tokens": asked + given},
            )

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=self._answer(messages, kwargs))])

        def _stream(self, messages, stop=None, run_manager=None, **kwargs):
            message = self._answer(messages, kwargs)
            text = message.content
            for part in [text[i : i + CHUNK] for i in range(0, len(text), CHUNK)] or [""]:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=part, id=message.id))
                if run_manager:
                    run_manager.on_llm_new_token(part, chunk=chunk)
                yield chunk
            calls = [
                {
                    "name": c["name"],
                    "args": json.dumps(c["args"]),
                    "id": c["id"],
                    "index": i,
                    "type": "tool_call_chunk",
                }
                for i, c in enumerate(message.tool_calls)
            ]
            last = AIMessageChunk(
                content="",
                id=message.id,
                response_metadata=message.response_metadata,
                usage_metadata=message.usage_metadata,
                tool_call_chunks=calls,
            )
            yield ChatGenerationChunk(message=last)

    # A run must not stream unless the application asks for it: invoke() stays on _generate.
    return ScriptedChat(model_name=model, callbacks=callbacks, disable_streaming=False)
