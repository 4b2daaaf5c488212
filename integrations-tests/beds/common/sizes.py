"""How large a naive recording is, and what storing equal values once makes of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import zstandard

MIN_BLOB = 128


def dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def split(events: list[dict]) -> tuple[dict[str, bytes], list[bytes]]:
    """Every string and container of 128 B or more becomes a blob of references (a Merkle tree of values)."""
    blobs: dict[str, bytes] = {}

    def reduce(value: Any) -> Any:
        if isinstance(value, str):
            return put(value.encode()) if len(value) >= MIN_BLOB else value
        if isinstance(value, list):
            smaller: Any = [reduce(v) for v in value]
        elif isinstance(value, dict):
            smaller = {k: reduce(v) for k, v in value.items()}
        else:
            return value
        data = dump(smaller)
        return put(data) if len(data) >= MIN_BLOB else smaller

    def put(data: bytes) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs.setdefault(digest, data)
        return {"$ref": digest}

    parts = ("payload", "metadata")
    skeletons = [dump({k: reduce(v) if k in parts else v for k, v in event.items()}) for event in events]
    return blobs, skeletons


def measure(events: list[dict]) -> dict[str, Any]:
    lines = [dump(event) for event in events]
    kinds = sorted({event["event"] for event in events})
    blobs, skeletons = split(events)
    compress = zstandard.ZstdCompressor(level=3).compress
    unique, skeleton = sum(map(len, blobs.values())), sum(map(len, skeletons))
    return {
        "events": len(events),
        "naive_bytes": sum(map(len, lines)) + len(lines),
        "largest_event_bytes": max(map(len, lines), default=0),
        "naive_by_event": {
            kind: sum(len(n) for n, e in zip(lines, events, strict=True) if e["event"] == kind)
            for kind in kinds
        },
        "naive_zstd3_per_event": sum(len(compress(line)) for line in lines),
        "unique_values": {
            "blobs": len(blobs),
            "blob_bytes": unique,
            "skeleton_bytes": skeleton,
            "total": unique + skeleton,
            "zstd3": sum(len(compress(b)) for b in blobs.values()) + len(compress(b"\n".join(skeletons))),
        },
    }
