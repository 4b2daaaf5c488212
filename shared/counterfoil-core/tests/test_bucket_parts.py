"""What of evidence in a bucket needs no server: addresses, settings, what refusals mean, listings, locks."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterfoil import keys
from counterfoil.cli import main
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.stores import open_store
from counterfoil.stores.s3 import failing, locks, spooled
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.clients import end_of_day, lock_headers
from counterfoil.stores.s3.failing import BucketError, failure, persist
from counterfoil.stores.s3.listing import Listing
from counterfoil.stores.s3.options import Options, duration
from counterfoil.stores.s3.setting_up import policies
from counterfoil.stores.s3.told import BucketState, Lock, Version, oldest_first

NOW = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
LOG = "0123456789abcdef"


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://abc", "abc", ""),
        ("s3://abc/", "abc", ""),
        ("s3://abc/x", "abc", "x"),
        ("s3://abc/x/y=1/", "abc", "x/y=1"),
        ("s3://a.b-c.9/team_1/!*'(),:@+", "a.b-c.9", "team_1/!*'(),:@+"),
    ],
)
def test_a_place_has_one_address(text: str, bucket: str, prefix: str) -> None:
    found = Address.parse(text)
    assert (found.bucket, found.prefix) == (bucket, prefix)
    assert Address.parse(found.uri) == found
    assert found.key("k") == (f"{prefix}/k" if prefix else "k")


@pytest.mark.parametrize(
    "text",
    [
        "s3://",
        "s3:///x",
        "s3://ab",
        "s3://ABC/x",
        "s3://a..b/x",
        "s3://-abc",
        "s3://1.2.3.4/x",
        "s3://xn--abc",
        f"s3://{'a' * 64}",
        "s3://abc//x",
        "s3://abc/x//",
        "s3://abc/../x",
        "s3://abc/./x",
        "s3://abc/a b",
        "s3://abc/a\0b",
        "s3://abc/ä",
        "s3://abc/a%20b",
        "s3://abc/a\\b",
        "s3://abc/x?versionId=1",
        "s3://abc/x#y",
        f"s3://abc/{'x' * 901}",
    ],
)
def test_what_others_would_spell_in_their_own_way_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as failed:
        open_store(text)
    assert failed.value.code == "CF-CONFIG-013"


@pytest.mark.parametrize("text", ["s3://key:secret@abc/x", "s3://abc/x?token=secret", "s3://abc#secret"])
def test_a_secret_in_an_address_is_not_repeated(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", text]) == 2
    told = capsys.readouterr()
    assert "CF-CONFIG-013" in told.err
    assert "secret" not in told.err + told.out


def test_the_packages_are_asked_for_when_they_are_needed(
    lab: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("boto3", "obstore"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["verify", "s3://some-bucket/x"]) == 2
    told = capsys.readouterr().err
    assert "CF-CONFIG-014" in told
    assert 'pip install "counterfoil[s3]"' in told


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("90m", 5400), ("12h", 43_200), ("365d", 31_536_000), ("7y", 220_752_000)],
)
def test_durations(text: str, seconds: int) -> None:
    assert duration(text, name="x") == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "0d", "5", "d", "-1d", "1.5d", "1w", "101y", "999999y", "1d ", "٣d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError) as failed:
        duration(text, name="x")
    assert failed.value.code == "CF-CONFIG-015"


def test_options_come_from_settings_then_from_the_variables_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options.load() == Options()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://one:1/")
    assert Options.load().endpoint == "http://one:1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://two")
    assert Options.load().endpoint == "https://two"
    monkeypatch.setenv("COUNTERFOIL_S3_ENDPOINT", "https://three:3")
    monkeypatch.setenv("COUNTERFOIL_S3_RETAIN", "2d")
    monkeypatch.setenv("COUNTERFOIL_S3_MODE", "GOVERNANCE")
    found = Options.load()
    assert (found.endpoint, found.retain, found.mode) == ("https://three:3", timedelta(days=2), "GOVERNANCE")
    assert found.until(NOW) == NOW + timedelta(days=2)


@pytest.mark.parametrize(
    "text", ["ftp://x", "localhost:8333", "http://", "http://u:secret@x", "http://x:99999", "http://x?secret"]
)
def test_an_endpoint_that_is_none_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("COUNTERFOIL_S3_ENDPOINT", text)
    with pytest.raises(ConfigError) as failed:
        Options.load()
    assert failed.value.code == "CF-CONFIG-015"
    assert "secret" not in str(failed.value)


def test_one_name_at_two_servers_is_two_places() -> None:
    names = {
        Bucket(Address("abc", "x"), Options(endpoint=one)).name for one in (None, "http://a", "http://b")
    }
    assert len(names) == 3


# -- what refusals mean -----------------------------------------------------------------------------------------------


class Answer(Exception):
    """As boto3 raises for an answer."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{code}: AKIASECRET {status}")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}


def obstore_says(status: int, code: str) -> Exception:
    """As obstore raises: one text with everything in it."""
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>AKIASECRET</AWSAccessKeyId></Error>"
    return Exception(
        f"Generic S3 error: Error performing PUT http://x/k in 1ms - Server returned non-2xx status code: "
        f"{status} Some Reason: {body}\n\nDebug source:\nstatus: 503 SlowDown"
    )


@pytest.mark.parametrize("client", [Answer, obstore_says])
@pytest.mark.parametrize(
    ("status", "said", "code", "again"),
    [
        (404, "NoSuchBucket", "CF-S3-003", False),
        (404, "NoSuchKey", "CF-S3-012", False),
        (404, "NoSuchVersion", "CF-S3-012", False),
        (403, "AccessDenied", "CF-S3-004", False),
        (400, "ExpiredToken", "CF-S3-005", True),
        (403, "RequestTimeTooSkewed", "CF-S3-006", False),
        (503, "SlowDown", "CF-S3-007", True),
        (429, "TooManyRequests", "CF-S3-007", True),
        (409, "ConditionalRequestConflict", "CF-S3-007", True),
        (403, "InvalidAccessKeyId", "CF-S3-008", False),
        (403, "SignatureDoesNotMatch", "CF-S3-008", False),
        (401, "Unauthorized", "CF-S3-008", False),
        (404, "ObjectLockConfigurationNotFoundError", "CF-S3-010", False),
        (500, "InternalError", "CF-S3-011", True),
        (502, "BadGateway", "CF-S3-011", True),
        (418, "Teapot", "CF-S3-001", False),
    ],
)
def test_a_refusal_has_one_code_whichever_client_met_it(
    client: Any, status: int, said: str, code: str, again: bool
) -> None:
    found = failure(client(status, said), doing="do it", where="k")
    assert (found.code, found.again) == (code, again)
    assert f"({status} {said})" in found.message
    assert "AKIASECRET" not in str(found)
    assert found.hint
    copy = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own
    assert (copy.code, copy.again, str(copy)) == (found.code, found.again, str(found))


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("EndpointConnectionError", "Could not connect", "CF-S3-002"),
        ("ReadTimeoutError", "Read timeout on endpoint URL", "CF-S3-002"),
        ("GenericError", "Generic S3 error: HTTP error: error sending request", "CF-S3-002"),
        ("NoCredentialsError", "Unable to locate credentials", "CF-S3-009"),
        ("ValueError", "something else: AKIASECRET", "CF-S3-001"),
    ],
)
def test_without_an_answer_it_is_the_network_or_the_machine(name: str, text: str, code: str) -> None:
    found = failure(type(name, (Exception,), {})(text), doing="do it", where="k")
    assert found.code == code
    assert "AKIASECRET" not in str(found)


def test_what_can_help_is_tried_again_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(failing.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(failing.time, "sleep", lambda span: clock.__setitem__(0, clock[0] + span))
    renewed: list[int] = []

    def run(*faults: Any) -> Any:
        left = list(faults)

        def what() -> str:
            if left:
                raise left.pop(0)
            return "done"

        return persist(what, renew=lambda: renewed.append(1), doing="do it", where="k", patience=10)

    assert (
        run(Answer(503, "SlowDown"), Answer(500, "InternalError"), Answer(409, "OperationAborted")) == "done"
    )
    assert run(Answer(403, "InvalidAccessKeyId")) == "done"
    assert renewed == [1]
    for faults, code in (
        ([Answer(403, "AccessDenied")], "CF-S3-004"),
        ([Answer(403, "InvalidAccessKeyId")] * 2, "CF-S3-008"),
        ([Answer(503, "SlowDown")] * 100, "CF-S3-007"),
    ):
        before = clock[0]
        with pytest.raises(BucketError) as failed:
            run(*faults)
        assert failed.value.code == code
        assert failed.value.__cause__ is None
        assert clock[0] - before <= 10


# -- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_ends_at_a_midnight_and_never_earlier() -> None:
    for seconds in random.Random(5).sample(range(10**8), 200):
        at = NOW + timedelta(seconds=seconds)
        end = end_of_day(at)
        assert timedelta(0) <= end - at < timedelta(days=1)
        assert (end.hour, end.minute, end.second) == (0, 0, 0)
    assert lock_headers("COMPLIANCE", None, legal_hold=False) == {}
    assert lock_headers("COMPLIANCE", NOW, legal_hold=True) == {
        "x-amz-object-lock-mode": "COMPLIANCE",
        "x-amz-object-lock-retain-until-date": "2026-05-05T00:00:00Z",
        "x-amz-object-lock-legal-hold": "ON",
    }


def version(number: int = 0, *, at: datetime = NOW, marker: bool = False, name: str = "v") -> Version:
    return Version(f"p/{LOG}/{number:08d}.seg", name, 0 if marker else 5, at, "", True, marker)


class Asked:
    """A bucket that answers from a table."""

    def __init__(self, held: Sequence[Lock | BucketError], state: BucketState) -> None:
        self.address, self._held, self._state = Address("abc", "p"), held, state

    def state(self) -> BucketState:
        return self._state

    def lock_of(self, key: str, version: str) -> Lock:
        found = self._held[int(key[-12:-4])]
        if isinstance(found, BucketError):
            raise found
        return found


def judged(*held: Lock | BucketError, retain: timedelta | None = None, state: Any = None) -> list[str]:
    uploaded = datetime.now(UTC) - timedelta(days=10)
    listing = Listing.of([version(number, at=uploaded) for number in range(len(held))], "p/")
    asked: Any = Asked(held, state or BucketState(True, True, True))
    return [one.code for one in locks.findings(asked, listing, None, retain=retain)]


def until(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def test_every_lock_is_judged_by_what_is_asked_for() -> None:
    now, ended = Lock("COMPLIANCE", until(5), False), Lock("COMPLIANCE", until(-1), False)
    assert judged(now) == []
    assert judged(ended) == ["CF-S3-023"]
    # From the upload on, ten days ago: nine days are over as they were agreed.
    assert judged(ended, retain=timedelta(days=9)) == []
    assert judged(ended, retain=timedelta(days=10)) == ["CF-S3-023"]
    assert judged(now, retain=timedelta(days=15)) == []  # an hour less is not told
    assert judged(now, retain=timedelta(days=16)) == ["CF-S3-023"]
    lesser = Lock("GOVERNANCE", until(900), False)
    assert judged(now, Lock(None, None, False), Lock(None, None, True), lesser) == ["CF-S3-022"] * 3


def test_what_may_not_be_asked_is_told_once() -> None:
    denied = BucketError("no", code="CF-S3-004")
    assert judged(denied, denied, denied) == ["CF-S3-026"]
    with pytest.raises(BucketError):
        judged(BucketError("gone", code="CF-S3-002"))


@pytest.mark.parametrize("state", [BucketState(True, False, True), BucketState(True, True, False)])
def test_a_bucket_that_keeps_nothing_is_told_once(state: BucketState) -> None:
    none = Lock(None, None, False)
    assert judged(none, none, state=state) == ["CF-S3-024"]


# -- listings ---------------------------------------------------------------------------------------------------------


def test_the_oldest_version_is_the_one_that_counts() -> None:
    later = NOW + timedelta(seconds=1)
    rows = [version(name="new", at=later), version(name="old"), version(name="mark", at=later, marker=True)]
    assert next(oldest_first(rows)).version == "old"
    # Of one second, the listing's order: newest first.
    same = [version(name="third"), version(name="second"), version(name="first")]
    assert [one.version for one in oldest_first(same)] == ["first", "second", "third"]


def test_a_listing_is_parted() -> None:
    rows = [
        Version("p/.gitignore", "a", 2, NOW, "", True, False),
        version(0, name="first"),
        version(0, name="second", at=NOW + timedelta(days=1)),
        version(1, name="mark", marker=True),
        version(2, name="only"),
        Version(f"p/{LOG}/00000003.seg.tmp", "a", 2, NOW, "", True, False),
        Version(f"p/{LOG.upper()}/00000003.seg", "a", 2, NOW, "", True, False),
        Version(f"p/x/{LOG}/00000003.seg", "a", 2, NOW, "", True, False),
    ]
    found = Listing.of(rows, "p/")
    assert [(log, number, one.version) for log, number, one in found.objects()] == [
        (LOG, 0, "first"),
        (LOG, 2, "only"),
    ]
    assert sorted(found.touched) == [f"{LOG}/00000000.seg", f"{LOG}/00000001.seg"]
    assert len(found.foreign) == 4


def row(name: str) -> dict[str, Any]:
    return {"Key": name, "VersionId": "v", "Size": 1, "LastModified": NOW, "IsLatest": True}


@pytest.mark.parametrize(
    "pages",
    [
        [{"IsTruncated": True}],
        [{"IsTruncated": True, "NextKeyMarker": ""}],
        [{"IsTruncated": True, "NextKeyMarker": "a"}, {"IsTruncated": True, "NextKeyMarker": "a"}],
        [
            {"IsTruncated": True, "NextKeyMarker": "a", "Versions": [row("a"), row("b")]},
            {"Versions": [row("a")]},
        ],
    ],
)
def test_a_listing_that_goes_nowhere_or_back_is_refused(
    pages: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an endless listing nor versions of one key that stand apart, each of which would be its first."""
    bucket = Bucket(Address.parse("s3://abc/p"), Options())
    left = iter(pages)
    monkeypatch.setattr(bucket, "_list", lambda prefix, marks: next(left))
    with pytest.raises(BucketError) as failed:
        list(bucket.versions("p/"))
    assert failed.value.code == "CF-S3-015"


# -- what waits -------------------------------------------------------------------------------------------------------


def test_what_was_sent_waits_no_more(lab: Any) -> None:
    folder = spooled.spool_root("s3://abc/p") / LOG
    assert spooled.waiting("s3://abc/p") is None
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number:08d}.seg").write_bytes(b"x")
    assert spooled.waiting("s3://abc/p", LOG, 2) == folder.parent
    (folder / "00000001.sent").touch()
    assert spooled.waiting("s3://abc/p", LOG, 1) is None
    assert spooled.waiting("s3://abc/p", LOG, 2) == spooled.waiting("s3://abc/p") == folder.parent
    (folder / "00000002.sent").touch()
    assert spooled.waiting("s3://abc/p", LOG, 2) is spooled.waiting("s3://abc/p") is None


def test_a_copy_of_a_bucket_does_not_miss_what_the_bucket_has_besides(lab: Any) -> None:
    """A log that is remembered in a bucket stands there, as far as a folder that was pulled from it can tell."""
    lab.record()
    heads = keys.remembered_heads()
    (origin, head), *_ = heads.items()
    for name, size in ((origin, head.size), (f"{origin[:-16]}{LOG}", 5)):
        keys.forget_head(name)
        placed = {"evidence": "s3://abc/p", "segment": 0, "offset": head.offset}
        keys.remember_head(name, size=size, root=head.root, **placed)
    assert lab.verify().verdict == "intact"


# -- rights -----------------------------------------------------------------------------------------------------------


def test_rights_end_at_the_prefix() -> None:
    for address in (Address("abc", "p/q"), Address("abc")):
        objects = f"arn:aws:s3:::abc/{address.root}*"
        for role, policy in policies(address, legal_hold=True).items():
            for one in policy["Statement"]:
                assert one["Resource"] in ("arn:aws:s3:::abc", objects)
                if one["Effect"] == "Deny":
                    assert role == "bucket"
                elif "s3:ListBucket" in one["Action"] and role != "admin":
                    assert one["Condition"] == {"StringLike": {"s3:prefix": [f"{address.root}*"]}}


def test_reading_asks_nothing_before_it_has_to() -> None:
    """Neither a folder of that name nor a connection is needed to name a place."""
    store = open_store("s3://some-bucket/x")
    assert (store.place, store.holds(Path("/")), repr(store)) == (
        "s3://some-bucket/x",
        False,
        "S3Store('s3://some-bucket/x')",
    )
    with pytest.raises(CounterfoilError) as failed:
        _ = store.root
    assert failed.value.code == "CF-STORE-008"
