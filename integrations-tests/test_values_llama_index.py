"""LlamaIndex's messages, nodes and answers have canonical values that hold them whole, without an adapter."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import Document, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from counterfoil import canonical, digest, values
from counterfoil.capture import Capture


def _node(text: str, **more: Any) -> TextNode:
    return TextNode(text=text, id_="n1", **more)


def test_objects_are_told_whole_and_apart() -> None:
    made: list[Any] = [
        ChatMessage(role="user", content="hi"),
        ChatMessage(role="system", content="hi"),
        ChatMessage(role="user", content="ho"),
        ChatMessage(role="user", blocks=[ImageBlock(image=b"\x00\x01")]),
        ChatMessage(role="assistant", content="hi", additional_kwargs={"tool_calls": [{"id": "c1"}]}),
        ChatResponse(message=ChatMessage(role="assistant", content="hi"), raw={"id": "r1"}),
        _node("a"),
        _node("b"),
        _node("a", metadata={"k": 1}),
        _node("a", embedding=[0.5, 1.0]),
        _node("a", relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d1")}),
        Document(text="a", id_="n1"),
        NodeWithScore(node=_node("a"), score=0.5),
        NodeWithScore(node=_node("a")),
        Response("yes", source_nodes=[NodeWithScore(node=_node("a"))]),
        Response("yes", metadata={"a": 1}),
    ]
    forms = [values.encode(one) for one in made]
    assert not any(values.inexact(one) for one in forms)
    assert len({digest.digest_of(one) for one in forms}) == len(made)
    for one, form in zip(made, forms, strict=True):
        assert Capture(lambda sha256, data: True).reference(one) == digest.Reducer().reference(form)
        assert canonical.dumps(values.encode(values.decode(form))) == canonical.dumps(form)


def test_a_message_s_form() -> None:
    form = values.encode(ChatMessage(role="user", content="hi"))
    assert form["$model"] == "llama_index.core.base.llms.types.ChatMessage"
    (block,) = form["fields"]["blocks"]
    assert block["fields"]["text"] == "hi"
    assert form["fields"]["role"]["name"] == "USER"
