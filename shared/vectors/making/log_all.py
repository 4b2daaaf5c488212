"""The log vectors in one: the complete log taken apart, and every case with its verdict."""

from __future__ import annotations

from typing import Any, Final

from making import (
    log_archived,
    log_calls,
    log_complete,
    log_meaning,
    log_odd,
    log_remembered,
    log_statements,
    log_streams,
    log_structure,
    log_trust,
    log_types,
    log_weights,
)
from making.formats import sha256
from making.logs import KEYS


def build() -> dict[str, Any]:
    """The file."""
    groups = (
        log_structure.chunk_cases,
        log_structure.entry_cases,
        log_structure.segment_cases,
        log_structure.checkpoint_cases,
        log_meaning.session_cases,
        log_meaning.record_cases,
        log_calls.call_cases,
        log_streams.stream_cases,
        log_remembered.remembered_cases,
        log_archived.archived_cases,
        log_statements.statement_cases,
        log_trust.trust_cases,
        log_trust.policy_cases,
        log_types.type_cases,
        log_odd.odd_cases,
        log_weights.weights_cases,
    )
    cases = [case.to_json() for group in groups for case in group()]
    assert len({case["name"] for case in cases}) == len(cases)
    return {
        "cases": cases,
        "complete": log_complete.details(),
        "keys": {name: key.to_json() for name, key in KEYS.items()},
        "streams": streams(),
    }


def streams() -> list[dict[str, Any]]:
    """Compressed streams as zstd 1.5 wrote them (level 3, a flush after each part); kept, not made again."""
    return [{"chunks": chunks, "parts": parts, "window": 2 << 20} for chunks, parts in _STREAMS]


_NOISE: Final = "".join(sha256(b"%d" % number) for number in range(12))
_STREAMS: Final[list[tuple[list[str], list[str]]]] = [
    (
        [
            "AQAAACAAAABAAQAAWAOxoSi1L/0AWLwAAIBUaGUgcml2ZXIgcm9zZS4gAQBaRp1L",
            "AgAAAB4AAABOAQAAHEAyndwAAJhUZmVsbE5vYm9keSBzYXcgaXQuAgAvQJEGrg==",
            "AgAAADkAAAA2AAAABhphkbABAEEgc2VudGVuY2UgdGhhdCBjb21lcyBvbmx5IG9uY2UsIGFuZCBhIG51bWJlcjogMj"
            "cxODI4Lg==",
        ],
        [
            "The river rose. " * 20,
            "The river fell. " * 20 + "Nobody saw it.",
            "A sentence that comes only once, and a number: 271828.",
        ],
    ),
    (
        [
            "AQAAAKMBAAAAAwAAAALUKCi1L/0AWNQMAAawZQvAD7BWxVrYyv+uBGEAYQBhADWrE+xuZjrakB/FttgHnAEDXZuLcV"
            "k/4O4WXiY6XnPUS1uHt91SHsBJHS+i6qStR1c/Wv9OgGud4fw0/3OyhmvpV/snOtcpZ7SRTt05wtvCeWxpbWx4Utk4"
            "b8j/ZuvsXwGd469kVY/Hvs+7LnsyIh+aYQxL5UVh0KorlHvjfRIt74q/2qz8MVWLsIwy/dMh0bQCHWRIT4hvHMYf3d"
            "R3dyJLzp+0KUd+C2Qf4H2WMCK3Fq3jz97BBc5gi9u+YoVAB04Bo2T73m/wDtmWtmaLrPYNCgDKCjG735QSdyHSzTJC"
            "YixRJBsISdqmJXafGGrFImvoF2VyAUW7+0aOiizkm2kCeYOWkfDmgfv8X3o4ErYWAn1v108XVAszzbeNbncRwPbnAb"
            "juBQoXCCwGMvsubMzL56MyF1jj+06MhtJHy64mK8hP1R2v5q0zUh5PsuIPgoGCYMFcRTmQDugPqARCNhXcREq3tXsB"
            "w/cD7+Wr67oca8dnpedHIAvlHP8A7XzeJx5YGQEA",
            "AgAAAG8AAADIAAAAxfbbF2QDAOMLGO2/RjqRheFy7cfeAP/BXrACdH5adny2wavlD/PHA3G7tUdK1Bw1RgKkCO8Inj"
            "BJVcxhgPAuK/ThJTPabvrRXfSMsmLqvHQtaMjkvz6FcSM6frzMxuK/I2DCgHGgUO6LAQIApLICGO4yZw==",
            "AgAAAA8AAADoAwAAAITI5WQAAAACAClbZRVyLa8EEA==",
        ],
        [_NOISE, _NOISE[::-1][:200], _NOISE[:700] + _NOISE[300:600]],
    ),
]
