"""Deterministic stand-ins for the data vendors that TradingAgents calls over the network.

They replace library entry points and nothing of the application's own: ``yfinance`` (Ticker, download,
Search), ``urllib.request.urlopen`` (StockTwits, Reddit) and ``requests.get`` (FRED, Polymarket). Call
``install`` before the application is imported. ``calls`` is the ground truth of every data fetch.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import urllib.request
from types import MappingProxyType
from urllib.parse import parse_qs, urlparse

import numpy as np
import pandas as pd
import requests
import yfinance as yf
from prose import Seeded, prose

calls: list[tuple[str, str]] = []  # (source, detail)


def _rng(*key: object) -> Seeded:
    return Seeded(repr(key))


def ohlcv(symbol: str, start: str, end: str) -> pd.DataFrame:
    """Business-day random walk whose value on a date depends on (symbol, date) only."""
    days = pd.bdate_range("2015-01-01", pd.Timestamp(end) - pd.Timedelta(days=1))
    r = np.random.default_rng(int(hashlib.sha256(symbol.encode()).hexdigest()[:8], 16))
    step = r.normal(0.0004, 0.017, 6000)[: len(days)]
    close = 90 * np.exp(np.cumsum(step))
    gap = r.normal(0, 0.006, 6000)[: len(days)]
    spread = np.abs(r.normal(0.012, 0.005, 6000)[: len(days)])
    vol = (4e7 * (1 + 0.4 * np.abs(r.normal(0, 1, 6000)[: len(days)]))).astype("int64")
    df = pd.DataFrame(
        {
            "Open": close * (1 + gap),
            "High": close * (1 + spread),
            "Low": close * (1 - spread),
            "Close": close,
            "Volume": vol,
        },
        index=pd.DatetimeIndex(days, name="Date"),
    )
    return df[df.index >= pd.Timestamp(start)]


def _statement(symbol: str, kind: str, rows: list[str], quarterly: bool) -> pd.DataFrame:
    ends = pd.date_range("2022-12-31", "2026-12-31", freq="QE" if quarterly else "YE")[::-1][:8]
    rng = _rng(symbol, kind, quarterly)
    return pd.DataFrame({e: [round(rng.uniform(1e7, 9e10), 0) for _ in rows] for e in ends}, index=rows)


_BS = (
    "Total Assets,Current Assets,Cash And Cash Equivalents,Receivables,Inventory,"
    "Other Short Term Investments,Net PPE,Goodwill,Other Intangible Assets,"
    "Total Liabilities Net Minority Interest,Current Liabilities,"
    "Accounts Payable,Current Debt,Long Term Debt,Total Debt,Net Debt,Stockholders Equity,Retained Earnings,"
    "Common Stock Equity,Working Capital,Invested Capital,Tangible Book Value,Share Issued,"
    "Ordinary Shares Number,Minority Interest,Capital Stock,Treasury Shares Number"
).split(",")
_CF = (
    "Operating Cash Flow,Investing Cash Flow,Financing Cash Flow,Capital Expenditure,Free Cash Flow,"
    "Depreciation And Amortization,Stock Based Compensation,Change In Working Capital,Change In Inventory,"
    "Repurchase Of Capital Stock,Cash Dividends Paid,Issuance Of Debt,Repayment Of Debt,"
    "Net Income From Continuing Operations,Deferred Tax,End Cash Position,Beginning Cash Position"
).split(",")
_IS = (
    "Total Revenue,Cost Of Revenue,Gross Profit,Operating Expense,Research And Development,"
    "Selling General And Administration,Operating Income,Interest Expense,Pretax Income,Tax Provision,"
    "Net Income,Diluted EPS,Basic EPS,Diluted Average Shares,EBIT,EBITDA,Normalized EBITDA"
).split(",")


def _articles(key: str, n: int, around: str) -> list[dict]:
    rng = _rng("news", key)
    day = pd.Timestamp(around)
    out = []
    for i in range(n):
        t = day - pd.Timedelta(days=rng.randint(0, 6), hours=rng.randint(0, 20))
        out.append(
            {
                "id": f"{key}-{i}",
                "content": {
                    "title": prose(f"{key}t{i}", 70),
                    "summary": prose(f"{key}s{i}", 320),
                    "provider": {
                        "displayName": rng.choice(["Wire A", "Wire B", "Ledger Daily", "Street Note"])
                    },
                    "canonicalUrl": {
                        "url": f"https://example.invalid/{hashlib.sha256(f'{key}{i}'.encode()).hexdigest()[:12]}"
                    },
                    "pubDate": t.strftime("%Y-%m-%dT%H:%M:%SZ"),
                },
            }
        )
    return out


class Ticker:
    around = "2026-05-15"

    def __init__(self, symbol, *a, **k):
        self.symbol = symbol

    def _note(self, what):
        calls.append(("yfinance.Ticker", f"{self.symbol}.{what}"))

    def history(self, start=None, end=None, **k):
        self._note(f"history({start},{end})")
        return ohlcv(self.symbol, str(start), str(end)).tz_localize("America/New_York")

    @property
    def info(self):
        self._note("info")
        rng = _rng(self.symbol, "info")
        num = (
            "marketCap trailingPE forwardPE pegRatio priceToBook trailingEps forwardEps dividendYield beta "
            "fiftyTwoWeekHigh fiftyTwoWeekLow fiftyDayAverage twoHundredDayAverage totalRevenue grossProfits "
            "ebitda netIncomeToCommon profitMargins operatingMargins returnOnEquity returnOnAssets "
            "debtToEquity currentRatio bookValue freeCashflow"
        ).split()
        return {
            "longName": f"{self.symbol} Fixture Holdings",
            "shortName": self.symbol,
            "sector": "Technology",
            "industry": "Semiconductors",
            "exchange": "NMS",
            "quoteType": "EQUITY",
            **{k: round(rng.uniform(0.5, 400), 3) for k in num},
        }

    def get_news(self, count=20, **k):
        self._note(f"get_news({count})")
        return _articles(self.symbol, count, self.around)

    @property
    def insider_transactions(self):
        self._note("insider_transactions")
        rng = _rng(self.symbol, "ins")
        return pd.DataFrame(
            [
                {
                    "Shares": rng.randint(100, 90000),
                    "Value": rng.randint(10**4, 10**7),
                    "Text": "Sale at market",
                    "Insider": f"OFFICER {i}",
                    "Position": "Officer",
                    "Transaction": "",
                    "Start Date": f"2026-04-{i + 1:02d}",
                    "Ownership": "D",
                }
                for i in range(20)
            ]
        )


for _n, _rows in (("balance_sheet", _BS), ("cashflow", _CF), ("income_stmt", _IS)):
    for _q in (False, True):

        def _get(self, n=_n, rows=_rows, q=_q):
            self._note(("quarterly_" if q else "") + n)
            return _statement(self.symbol, n, rows, q)

        setattr(Ticker, ("quarterly_" if _q else "") + _n, property(_get))


def download(symbol, start=None, end=None, **k):
    calls.append(("yfinance.download", f"{symbol}({start},{end})"))
    return ohlcv(symbol, start, end)


class Search:
    def __init__(self, query="", news_count=10, **k):
        calls.append(("yfinance.Search", query))
        self.news = _articles("q:" + query, news_count, Ticker.around)


class _Resp(io.BytesIO):
    status = 200
    headers = MappingProxyType({})


def _urlopen(req, *a, **k):
    url = req if isinstance(req, str) else req.full_url
    host = urlparse(url).hostname or ""
    if host.endswith("stocktwits.com"):
        calls.append(("stocktwits", url))
        rng = _rng(url)
        return _Resp(
            json.dumps(
                {
                    "messages": [
                        {
                            "created_at": Ticker.around + f"T1{i % 10}:00:00Z",
                            "user": {"username": f"user{i}"},
                            "body": prose(f"st{i}", 160),
                            "entities": {
                                "sentiment": rng.choice([{"basic": "Bullish"}, {"basic": "Bearish"}, None])
                            },
                        }
                        for i in range(30)
                    ]
                }
            ).encode()
        )
    if host.endswith("reddit.com"):
        calls.append(("reddit", url))
        sub = urlparse(url).path.split("/")[2]
        es = "".join(
            f"<entry><title>{prose(f'{sub}{i}', 60)}</title><published>{Ticker.around}T0{i}:00:00+00:00"
            f"</published><content type='html'>{prose(f'{sub}b{i}', 400)}</content></entry>"
            for i in range(5)
        )
        return _Resp(f"<feed xmlns='http://www.w3.org/2005/Atom'>{es}</feed>".encode())
    raise OSError(f"fixtures: no stand-in for {url}")


class _JsonResp:
    status_code = 200
    text = ""

    def __init__(self, o):
        self._o = o

    def json(self):
        return self._o

    def raise_for_status(self):
        pass


def _requests_get(url, params=None, **k):
    u = urlparse(url)
    host = u.hostname or ""
    p = params or parse_qs(u.query)
    if host.endswith("stlouisfed.org"):
        calls.append(("fred", f"{u.path}?{p.get('series_id')}"))
        if u.path.endswith("observations"):
            days = pd.date_range(p["observation_start"], p["observation_end"], freq="MS")
            rng = _rng(p["series_id"])
            base = rng.uniform(2, 320)
            return _JsonResp(
                {
                    "observations": [
                        {"date": str(d.date()), "value": f"{base * (1 + 0.01 * math.sin(i)):.3f}"}
                        for i, d in enumerate(days)
                    ]
                }
            )
        return _JsonResp(
            {
                "seriess": [
                    {
                        "title": f"Fixture series {p['series_id']}",
                        "units_short": "Idx",
                        "frequency": "Monthly",
                        "seasonal_adjustment_short": "SA",
                    }
                ]
            }
        )
    if host.endswith("polymarket.com"):
        calls.append(("polymarket", str(p.get("q"))))
        rng = _rng("pm", p.get("q"))
        return _JsonResp(
            {
                "events": [
                    {
                        "markets": [
                            {
                                "question": prose(f"pm{p.get('q')}{i}", 60),
                                "outcomes": '["Yes","No"]',
                                "outcomePrices": json.dumps([f"{(x := rng.random()):.3f}", f"{1 - x:.3f}"]),
                                "volumeNum": rng.randint(10**4, 10**7),
                                "endDate": "2099-12-31T00:00:00Z",
                                "oneWeekPriceChange": round(rng.uniform(-0.1, 0.1), 3),
                            }
                            for i in range(8)
                        ]
                    }
                ]
            }
        )
    raise requests.ConnectionError(f"fixtures: no stand-in for {url}")


def install(trade_date: str) -> None:
    Ticker.around = trade_date
    yf.Ticker, yf.download, yf.Search = Ticker, download, Search
    urllib.request.urlopen = _urlopen
    requests.get = _requests_get
