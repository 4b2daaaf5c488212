"""What a bucket's refusal means: one error with a stable code, whichever client met it.

Only the status and the code of an answer are told: answers of S3 repeat the access key, and those of a proxy anything.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from counterfoil.errors import CounterfoilError, StoreError

__all__ = ["BucketError", "failure", "persist", "told"]

_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_TIMED_OUT: Final = ("Timeout", "TimedOut", "timed out")

_EXPIRED: Final = frozenset(
    ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "RequestExpired")
)
_WRONG: Final = frozenset(("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthorizationHeaderMalformed"))
_BUSY: Final = frozenset(
    (
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequests",
        "OperationAborted",
        "ConditionalRequestConflict",
        "ConflictException",
    )
)
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 5.0
_AGAIN: Final = frozenset(("CF-S3-002", "CF-S3-005", "CF-S3-007", "CF-S3-011"))
T = TypeVar("T")


class BucketError(StoreError):
    """A bucket could not be reached or refused; ``again`` says whether the same may succeed later by itself."""

    @property
    def again(self) -> bool:
        """Whether waiting can help: no network, throttled, a failing server, credentials that get renewed."""
        return self.code in _AGAIN

    @property
    def renew(self) -> bool:
        """Whether other credentials than those at hand may help."""
        return self.code in ("CF-S3-005", "CF-S3-008", "CF-S3-009")


def told(exc: BaseException) -> tuple[int | None, str]:
    """(status, code) of the answer behind an exception of boto3 or obstore; (None, "") when there was no answer."""
    response: Any = getattr(exc, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = str(response.get("Error", {}).get("Code", ""))
        return status if isinstance(status, int) else None, "" if code.isdigit() else code[:64]
    text = str(exc).partition("\nDebug source:")[0]
    found = _STATUS.search(text)
    named = _CODE.search(text)
    return (int(found[1]) if found else None), (named[1] if named else "")


def failure(exc: BaseException, *, doing: str, where: str) -> BucketError:
    """The error for what a client raised; ``doing`` completes "cannot ..."."""
    status, code = told(exc)
    said = f" ({' '.join(filter(None, (str(status) if status else '', code)))})" if status else ""
    number, message, hint = _meaning(exc, status, code)
    return BucketError(f"cannot {doing}: {message}{said}", code=number, where=where, hint=hint)


def _meaning(exc: BaseException, status: int | None, code: str) -> tuple[str, str, str]:
    name = type(exc).__name__
    if code in _EXPIRED:
        return "CF-S3-005", "the credentials have expired", "renew them: they are looked for again each time"
    if code == "RequestTimeTooSkewed":
        return "CF-S3-006", "this machine's clock is wrong", "set the clock; S3 allows 15 minutes"
    if code in _WRONG or status == 401:
        return (
            "CF-S3-008",
            "the credentials are not known or do not fit",
            "check the AWS profile, keys and region",
        )
    if code == "NoSuchBucket":
        return (
            "CF-S3-003",
            "there is no such bucket",
            "make it by `counterfoil init s3://...`, or check the endpoint",
        )
    if code in ("ObjectLockConfigurationNotFoundError", "InvalidBucketState") or (
        code == "InvalidRequest" and "Object Lock" in str(exc)
    ):
        return "CF-S3-010", "the bucket has no Object Lock", "make it by `counterfoil init s3://...`"
    if code in ("NoSuchKey", "NoSuchVersion") or status == 404:
        return (
            "CF-S3-012",
            "the object is not there",
            "list the versions of its key: a delete marker may hide it",
        )
    if status == 403:
        return (
            "CF-S3-004",
            "access is denied",
            "see `counterfoil init --print-policy` for the rights that are needed",
        )
    if status in (429, 409) or code in _BUSY:
        return (
            "CF-S3-007",
            "the bucket is busy or throttles",
            "it is tried again; spread the load over prefixes",
        )
    if status is not None and (status >= 500 or status == 408):
        return "CF-S3-011", "the server failed", "it is tried again"
    if name in (
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "ProfileNotFound",
    ):
        return "CF-S3-009", "there are no credentials", "set AWS_PROFILE or AWS_ACCESS_KEY_ID and the secret"
    if status is None:
        text = str(exc)
        late = any(word in text or word in name for word in _TIMED_OUT)
        said = "no answer in time" if late else "the server cannot be reached"
        if (
            "Connect" in name
            or "sending request" in text
            or "HTTP error" in text
            or late
            or "Endpoint" in name
        ):
            return "CF-S3-002", said, "check the network and the endpoint; it is tried again"
    return "CF-S3-001", f"the server said no ({name})", "see docs/s3.md"


def persist(
    what: Callable[[], T], *, renew: Callable[[], None], doing: str, where: str, patience: float
) -> T:
    """Do something, and again while that can help and the patience (seconds) lasts; raises BucketError.

    ``renew`` is called once where other credentials may help.
    """
    ends = time.monotonic() + patience
    wait, renewed = _FIRST_WAIT, False
    while True:
        try:
            return what()
        except CounterfoilError as exc:
            if not isinstance(exc, BucketError):
                raise
            failed = exc
        except Exception as exc:
            failed = failure(exc, doing=doing, where=where)
        if failed.renew and not renewed:
            renew()
            renewed = True
            continue
        pause = wait * (0.5 + random.random() / 2)
        if not failed.again or time.monotonic() + pause > ends:
            # Without the cause: what a client says repeats the access key.
            raise failed from None
        time.sleep(pause)
        wait = min(wait * 2, _LONGEST_WAIT)
