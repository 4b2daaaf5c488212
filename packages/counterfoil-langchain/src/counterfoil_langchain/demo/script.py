"""What the model of the incident desk says: one answer for each request the desk can make.

A role is recognised by its system prompt, the point in its work by what its conversation already holds. A
request that fits nothing is a ``ScriptError``, so that a change to the desk shows up as an error and not as
another story.
"""

from __future__ import annotations

from typing import Any

from counterfoil_langchain.demo.endpoint import Json, Reply, ScriptError

SERVICES = ("orders-api", "payments", "storefront")

_ROUTES: tuple[tuple[str, str], ...] = (
    ("triage", "A customer-facing slowdown with no owner yet: triage decides which system it belongs to."),
    ("inspector", "The database explains the waiting; each service on the path must be checked for damage."),
    ("writer", "Every service has been checked and the findings agree: the report can be written."),
    ("finish", "The report has been reviewed and answers what was asked."),
)

_TRIAGE_NOTE = (
    "Checkout runs on orders-api, and orders-api waits on orders-db-1 for every order. The slowdown began "
    "four minutes after release 4.12 of orders-api. I hand this to the database agent: find out whether "
    "orders-db-1 is short of connections, and since when."
)

_DATABASE_FINDING = (
    "orders-db-1 has been out of connections since 09:44. The pool allows 100; release 4.12 opens a second "
    "connection for each order and gives it back only after the payment answers, so 50 orders in flight are "
    "enough to exhaust it. Queries themselves take 3 ms as before. There is no replica called orders-db-9: "
    "that entry in the service list is out of date."
)

_INSPECTIONS = {
    "orders-api": (
        "orders-api: release 4.12 went out at 09:40. From 09:44 requests wait up to 30 s for a connection "
        "and then fail with a timeout. 212 orders failed between 09:44 and 10:05; none of them was stored, "
        "so none has to be repaired. Release 4.11 is still on every host and can be activated within a "
        "minute."
    ),
    "payments": (
        "payments: healthy in itself, no error and no change of its own today. 9 payments were authorised "
        "for orders that failed afterwards and hold money on customers' cards; the authorisations end by "
        "themselves after seven days, or can be cancelled by hand from the list payments-orphans."
    ),
    "storefront": (
        "storefront: serves pages normally; only the last step of checkout is slow. Customers see a spinner "
        "and then the message 'Please try again', and about a third of them did, which added load. The "
        "retry button can be switched off by the flag checkout-retry without a release."
    ),
}

_DRAFT = (
    "Checkout failed for 212 orders between 09:44 and 10:05. Cause: release 4.12 of orders-api takes two "
    "database connections per order and exhausts the pool of orders-db-1. Remedy: go back to release 4.11. "
    "No stored order is damaged. The storefront's retry button made the load worse."
)

_REVIEW = (
    "Two things are missing. The 9 card authorisations found in payments concern customers' money and must "
    "be in the report with what is done about them. The service list still names orders-db-9, which does "
    "not exist: say who removes it. Cause and remedy agree with the findings."
)

_REPORT = """# Incident report: slow checkout

**What happened.** Between 09:44 and 10:05 checkout timed out for 212 orders. None of them was stored.

**Cause.** Release 4.12 of orders-api takes two database connections for each order and keeps the second until
the payment answers. 50 orders in flight exhaust the pool of orders-db-1.

**Remedy.** Activate release 4.11 (one minute). Switch off checkout-retry in the storefront until then.

**Customers.** 9 card authorisations belong to failed orders: cancel them from payments-orphans today.

**Left to do.** The owner of the service list removes orders-db-9, which does not exist."""


def answer(request: Json) -> Reply:
    """The desk's model: one ``Reply`` for a chat-completions body; ``ScriptError`` when there is none."""
    messages: list[dict[str, Any]] = request["messages"]
    system = str(messages[0].get("content"))
    for role, speak in _ROLES.items():
        if system.startswith(f"You are the {role}"):
            return speak(messages)
    raise ScriptError("no role for this system prompt")


def _coordinator(messages: list[dict[str, Any]]) -> Reply:
    said = sum(m.get("name") == "coordinator" for m in messages)
    if said >= len(_ROUTES):
        raise ScriptError("the coordinator has finished")
    to, why = _ROUTES[said]
    services = list(SERVICES) if to == "inspector" else []
    return Reply(tool_calls=(("Route", {"to": to, "why": why, "services": services}),))


def _triage(messages: list[dict[str, Any]]) -> Reply:
    if messages[-1]["role"] == "tool":
        question = "Is orders-db-1 short of connections?"
        return Reply(_TRIAGE_NOTE, (("transfer_to_database", {"question": question}),))
    return Reply("", (("lookup_service", {"name": "orders-api"}),))


def _database(messages: list[dict[str, Any]]) -> Reply:
    results = [m for m in messages if m["role"] == "tool" and "transfer" not in str(m["content"])]
    asked = sum("query_metrics" in str(m.get("tool_calls")) for m in messages)
    if not asked:
        # Two mistakes a model makes: an argument of the wrong type, and a name that does not exist.
        wrong_type = {"instance": "orders-db-1", "minutes": "the last hour"}
        wrong_name = {"instance": "orders-db-9", "minutes": 60}
        return Reply("", (("query_metrics", wrong_type), ("query_metrics", wrong_name)))
    if asked == 1:
        return Reply("", (("query_metrics", {"instance": "orders-db-1", "minutes": 60}),))
    if not results:
        raise ScriptError("the database agent got no tool result")
    return Reply(_DATABASE_FINDING)


def _inspector(messages: list[dict[str, Any]]) -> Reply:
    question = str(messages[-1].get("content"))
    for service, finding in _INSPECTIONS.items():
        if service in question.splitlines()[0]:
            return Reply(finding)
    raise ScriptError("no finding for this service")


def _writer(messages: list[dict[str, Any]]) -> Reply:
    if messages[-1]["role"] == "tool":
        return Reply(_REPORT)
    return Reply("", (("ask_reviewer", {"draft": _DRAFT}),))


def _reviewer(messages: list[dict[str, Any]]) -> Reply:
    if _DRAFT not in str(messages[-1].get("content")):
        raise ScriptError("the reviewer got no draft")
    return Reply(_REVIEW)


_ROLES = {
    "coordinator": _coordinator,
    "triage": _triage,
    "database": _database,
    "inspector": _inspector,
    "writer": _writer,
    "reviewer": _reviewer,
}
