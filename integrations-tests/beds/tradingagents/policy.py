"""What the scripted model says to each TradingAgents role.

Roles are recognised by the tools bound to the call (analysts), by the structured-output schema offered
(sentiment, managers, trader) or by one keyword of the prompt (debaters). Nothing is copied from the
application.
"""

from __future__ import annotations

import os
import re
from datetime import date, timedelta

from prose import prose
from scripted import Reply, Request

FACTOR = float(os.environ.get("TESTBED_TEXT_FACTOR", "1"))  # scales every generated text
REPORT = int(7000 * FACTOR)
ARGUMENT = int(3500 * FACTOR)
PLAN = int(2500 * FACTOR)

INDICATORS = ("close_10_ema", "close_50_sma", "close_200_sma", "macd", "rsi", "boll_ub", "atr", "vwma")
SERIES = ("cpi", "fed_funds_rate", "10y_treasury")

Calls = list[tuple[str, dict]]


def policy(request: Request) -> Reply:
    """The reply to one request; LookupError when no role fits."""
    ticker, day = _subject(request)
    names = request.tool_names
    for marker, role, batches in (
        ("get_stock_data", "market", _market),
        ("get_global_news", "news", _news),
        ("get_fundamentals", "fundamentals", _fundamentals),
    ):
        if marker in names:
            return _analyst(request, role, batches(ticker, day), ticker, day)
    for schema, arguments in _forms(ticker, day).items():
        if schema in names:
            return Reply(tool_calls=[(schema, arguments)])
    return _free_text(request, ticker, day)


def _subject(request: Request) -> tuple[str, str]:
    text = request.text()
    ticker = re.search(r"`([A-Z0-9.\-=^]{1,12})`", text)
    day = re.search(r"\b(20\d\d-\d\d-\d\d)\b", text)
    return (ticker.group(1) if ticker else "NVDA"), (day.group(1) if day else "2026-05-15")


def _before(day: str, days: int) -> str:
    return str(date.fromisoformat(day) - timedelta(days=days))


def _market(ticker: str, day: str) -> list[Calls]:
    indicator = {"symbol": ticker, "curr_date": day, "look_back_days": 30}
    return [
        [("get_stock_data", {"symbol": ticker, "start_date": _before(day, 180), "end_date": day})],
        # The snapshot fills the application's price cache; its parallel get_indicators calls would race for a
        # cold one and return errors (an upstream fault, see README).
        [("get_verified_market_snapshot", {"symbol": ticker, "curr_date": day})],
        [("get_indicators", {**indicator, "indicator": name}) for name in INDICATORS],
    ]


def _news(ticker: str, day: str) -> list[Calls]:
    return [
        [
            ("get_news", {"ticker": ticker, "start_date": _before(day, 7), "end_date": day}),
            ("get_global_news", {"curr_date": day, "look_back_days": 7, "limit": 10}),
        ],
        [
            *(("get_macro_indicators", {"indicator": name, "curr_date": day}) for name in SERIES),
            ("get_prediction_markets", {"topic": "Fed rate cut"}),
        ],
    ]


def _fundamentals(ticker: str, day: str) -> list[Calls]:
    quarterly = {"ticker": ticker, "freq": "quarterly", "curr_date": day}
    statements = ("get_balance_sheet", "get_cashflow", "get_income_statement")
    return [
        [("get_fundamentals", {"ticker": ticker, "curr_date": day})],
        [(name, quarterly) for name in statements],
    ]


def _analyst(request: Request, role: str, batches: list[Calls], ticker: str, day: str) -> Reply:
    turn = request.turn
    if turn < len(batches):
        return Reply("" if turn else f"I will collect the {role} inputs first.", batches[turn])
    return Reply(_report(role, ticker, day))


def _report(role: str, ticker: str, day: str) -> str:
    table = "| Item | Reading |\n|---|---|\n| Trend | up |\n| Risk | moderate |\n| Horizon | 3 months |\n"
    return f"# {role} report for {ticker} on {day}\n\n{prose(role + ticker + day, REPORT)}\n\n{table}"


def _forms(ticker: str, day: str) -> dict[str, dict]:
    key = ticker + day
    return {
        "SentimentReport": {
            "overall_band": "Mildly Bullish",
            "overall_score": 6.1,
            "confidence": "high",
            "narrative": _report("sentiment", ticker, day),
        },
        "ResearchPlan": {
            "recommendation": "Overweight",
            "rationale": prose("rm" + key, PLAN),
            "strategic_actions": prose("rmact" + key, PLAN // 2),
        },
        "TraderProposal": {
            "action": "Buy",
            "reasoning": prose("tr" + key, PLAN // 2),
            "entry_price": 181.5,
            "stop_loss": 168.0,
            "position_sizing": "4% of portfolio",
        },
        "PortfolioDecision": {
            "rating": "Overweight",
            "executive_summary": prose("pm" + key, PLAN // 2),
            "investment_thesis": prose("pmth" + key, PLAN),
            "price_target": 205.0,
            "time_horizon": "3-6 months",
        },
    }


def _free_text(request: Request, ticker: str, day: str) -> Reply:
    text = request.text()
    head = text[:400]
    if "reviewing your own past decision" in head:
        return Reply(prose("reflect" + ticker, 500))
    # The structured roles fall back to free text after any error.
    for marker, role in (("Research Manager", "rm"), ("trading agent", "tr"), ("Portfolio Manager", "pm")):
        if marker in head:
            return Reply("**Rating**: Overweight\n\n" + prose("free" + role + ticker + day, PLAN))
    if "sentiment analyst" in text[:1500]:
        return Reply(_report("free sentiment", ticker, day))
    debater = re.search(r"\b(Bull|Bear|Aggressive|Conservative|Neutral)\b[^.]{0,20}Analyst", head)
    if debater is None:
        raise LookupError("no scripted role for: " + head[:120])
    role = debater.group(1)
    earlier = text.count(role + " Analyst:")
    return Reply(prose(f"{role}{earlier}{ticker}{day}", ARGUMENT))
