"""Run TradingAgents' own graph offline with a scripted model, with or without a naive recorder.

The application is not here: give its checkout by --checkout or TRADINGAGENTS_CHECKOUT. Nothing in it is
changed; its network edge is replaced and its graph is run as its own CLI runs it.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "common"), str(HERE)]

import harness  # noqa: E402

PACKAGE = "tradingagents"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    harness.arguments(parser, PACKAGE)
    add = parser.add_argument
    add("--edge", choices=["http", "model"], default="http", help="replace the provider or its client")
    add("--provider", choices=["openai", "openai_compatible", "anthropic"], default="openai")
    add(
        "--attach",
        choices=["none", "hook", "ctor", "graph", "both"],
        default="none",
        help="how a naive recorder gets in: nowhere, as a LangChain configure hook, by the application's "
        "callbacks argument, by the graph's config as the application's CLI does, or by both",
    )
    add("--rounds", type=int, default=1, help="of both debates")
    add("--runs", type=int, default=1, help="in one process; from the second on the memory file is read")
    add("--ticker", default="NVDA")
    add("--date", type=date.fromisoformat, default=date(2026, 5, 15))
    add("--freeze-clock", type=_instant, metavar="TIMESTAMP", help="ISO 8601; UTC unless it says otherwise")
    add("--checkpoint", action="store_true", help="with the application's SQLite checkpointer")
    add("--debug", action="store_true", help="the application's stream() path instead of invoke()")
    add("--real-pacing", action="store_true", help="keep the application's sleeps between requests")
    add("--break-audit", metavar="NODE", help="attach a handler that raises once when NODE calls its model")
    return parser.parse_args()


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def main() -> None:
    args = parse()
    out = harness.prepare(args, PACKAGE, keys=("FRED_API_KEY",))
    import fixtures

    fixtures.install(str(args.date))

    import tradingagents.graph.trading_graph as application
    from tradingagents.dataflows import reddit
    from tradingagents.default_config import DEFAULT_CONFIG

    config = copy.deepcopy(DEFAULT_CONFIG)
    config.update(
        max_debate_rounds=args.rounds,
        max_risk_discuss_rounds=args.rounds,
        checkpoint_enabled=args.checkpoint,
        results_dir=str(out / "results"),
        data_cache_dir=str(out / "cache"),
        memory_log_path=str(out / "memory.md"),
    )
    wire = _replace_edge(args, application, config)
    frozen: list[str] = []
    if args.freeze_clock:
        import clock

        frozen = clock.freeze(PACKAGE, args.freeze_clock)
    if not args.real_pacing:
        reddit.time = SimpleNamespace(
            sleep=lambda seconds: None, strftime=reddit.time.strftime, gmtime=reddit.time.gmtime
        )
    recorder = _recorder(args)

    start = time.perf_counter()
    callbacks = [recorder] if args.attach in ("ctor", "both") else None
    app = application.TradingAgentsGraph(config=config, callbacks=callbacks, debug=args.debug)
    if args.attach in ("graph", "both"):
        graph_args = app.propagator.get_graph_args
        app.propagator.get_graph_args = lambda callbacks=None: graph_args(callbacks=[recorder])
    built = time.perf_counter()
    state, decision = _propagate(app, args)
    done = time.perf_counter()

    harness.write_json(out / "data_fetches.json", fixtures.calls)
    harness.write_json(out / "final_state.json", state)
    summary = {
        "app": "TradingAgents",
        "edge": args.edge,
        "provider": args.provider if args.edge == "http" else None,
        "attach": args.attach,
        "rounds": args.rounds,
        "decision": decision,
        "build_s": round(built - start, 3),
        "propagate_s": round(done - built, 3),
        "frozen": frozen,
        "data_fetches": len(fixtures.calls),
        "node_order": recorder.node_order() if recorder else [],
    }
    if recorder:
        from sizes import measure

        summary["recorder_s"] = round(recorder.seconds, 3)
        summary["event_counts"] = recorder.counts()
        summary["duplicate_events"] = recorder.duplicates
        summary["sizes"] = measure(recorder.events)
    harness.finish(out, summary, wire=wire, events=recorder.events if recorder else None)


def _replace_edge(args: argparse.Namespace, application: Any, config: dict) -> list[dict]:
    """Send the application's model calls to the policy; returns the list that fills with the exchanges."""
    from policy import policy

    if args.edge == "http":
        from fake_llm_server import FakeServer

        server = FakeServer(policy, latency_s=args.latency_ms / 1000).start()
        config.update(llm_provider=args.provider, backend_url=server.base_url)
        if args.provider == "anthropic":
            config.update(deep_think_llm="claude-opus-4-6", quick_think_llm="claude-haiku-4-5")
            config.update(backend_url=server.base_url.rsplit("/", 1)[0])
        return server.wire
    from scripted import Ids
    from scripted_chat import make_scripted_chat

    ids, wire = Ids(), []

    def create_llm_client(provider: str, model: str, base_url: str | None = None, **kwargs: Any) -> Any:
        llm = make_scripted_chat(policy, model, kwargs.get("callbacks"), ids, wire)
        return SimpleNamespace(get_llm=lambda: llm)

    application.create_llm_client = create_llm_client
    return wire


def _recorder(args: argparse.Namespace) -> Any:
    """The naive recorder, or None; attaches the hooks that --attach and --break-audit ask for."""
    if args.attach == "none" and not args.break_audit:
        return None
    from langchain_core.callbacks import BaseCallbackHandler
    from recorder import Recorder, attach_hook

    if args.break_audit:

        class Breaks(BaseCallbackHandler):
            raise_error = run_inline = True
            raised = False

            def on_chat_model_start(self, serialized: Any, messages: Any, **kw: Any) -> None:
                if not self.raised and (kw.get("metadata") or {}).get("langgraph_node") == args.break_audit:
                    self.raised = True
                    raise RuntimeError("audit sink is down")

        attach_hook(Breaks(), "testbed_breaks")
    recorder = Recorder() if args.attach != "none" else None
    if args.attach == "hook":
        attach_hook(recorder)
    return recorder


def _propagate(app: Any, args: argparse.Namespace) -> tuple[Any, Any]:
    state, decision = {}, None
    for index in range(args.runs):
        day = args.date + timedelta(days=14 * index)
        try:
            state, decision = app.propagate(args.ticker, str(day))
        except Exception as error:
            if not args.break_audit:
                raise
            decision = f"STOPPED: {type(error).__name__}: {error}"
    return state, decision


if __name__ == "__main__":
    main()
