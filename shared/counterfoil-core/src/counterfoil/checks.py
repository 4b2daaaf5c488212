"""Checks one log for ``verify``: structure, references, signatures, checkpoints, totals, tail, remembered head."""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from counterfoil import canonical, keys, notes, records, statements
from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, Reference, is_reference, references_in, sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.findings import Finding, Verdict
from counterfoil.log import BlobSeen, CheckpointSeen, Entry, LogScan, Problem, read_blob
from counterfoil.stores import FolderStore

__all__ = ["LogCheck"]

_COMPOSITE: Final = (MEDIA_JSON, MEDIA_FOLD)
_UNKNOWN: Final = frozenset({"CF-LOG-022", "CF-STMT-004"})
"""Codes that say: written by a newer version."""
_ANY_SIZE: Final = -1
"""Size in the reference to the node before, which a node of a message list does not tell."""
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_CITABLE: Final = re.compile(rb'[0-9a-f]{64}/[0-9a-f]{16}\n|\[\{"log":"|\[\{"digest":"')
"""How a checkpoint begins, a list of references to such (what a session cites of the other logs), a list of parents."""


class LogCheck:
    """One pass over one log; ``checkpoints`` (size to root) and ``counts`` are there afterwards."""

    def __init__(
        self, store: FolderStore, name: str, keyring: keys.Keyring, heads: dict[str, keys.Head]
    ) -> None:
        self.name = name
        self.checkpoints: dict[int, str] = {}
        self.counts = dict.fromkeys(
            ("records", "statements", "runs", "handoffs", "blobs", "losses", "open", "tail"), 0
        )
        self.notes: list[Finding] = []
        self._scan = LogScan(store, name)
        self._store = store
        self._keyring = keyring
        self._heads = heads
        self._findings: list[Finding] = []
        self._origin = ""
        self._identity: keys.PublicKey | None = None
        self._vkey = ""
        self._bound: dict[str, tuple[str, keys.PublicKey]] = {}
        self._blobs: dict[bytes, int] = {}
        self._hollow: dict[str, list[Reference]] = {}
        self._digests: set[bytes] = set()
        self._open: dict[str, str] = {}
        self._started: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._citable: dict[str, tuple[int, int, int, int]] = {}
        self._seen: list[tuple[str, bytes]] = []
        self._torn: Problem | None = None
        self._unended = 0
        self._receipts: set[str] = set()

    @property
    def origin(self) -> str:
        """Origin by the log's first session, empty before ``run``."""
        return self._origin

    def run(self) -> list[Finding]:
        """Findings of this log, in the order of its entries."""
        for event in self._scan.events():
            if isinstance(event, BlobSeen):
                self._blob(event)
            elif isinstance(event, Entry):
                self._entry(event)
            elif isinstance(event, CheckpointSeen):
                self._checkpoint(event)
            elif event.torn:
                self._torn = event
            else:
                self._say(event.code, event.where, event.message)
        live = bool(self._origin) and is_live(self._origin)
        self._tail(live=live)
        if not live and not self._scan.broken:
            self._left_open(self.name)
        self._remembered()
        self.counts["open"] = len(self._open)
        self.counts["blobs"] = len(self._blobs)
        return self._findings

    def cited(self, everything: dict[str, dict[int, str]], *, partial: bool) -> Iterator[Finding]:
        """Findings about other logs whose last checkpoint a session of this log cites."""
        for name, note in self._seen:
            if name not in everything:
                if not partial:
                    yield Finding(
                        "CF-VERIFY-004",
                        name,
                        f"log {self.name} cites a log that is gone",
                        "restore it from a copy",
                    )
                continue
            try:
                checkpoint = notes.Checkpoint.parse(notes.Note.parse(note).text)
            except CounterfoilError as exc:
                yield Finding(exc.code, name, exc.message, "the citing log was not written by Counterfoil")
                continue
            if everything[name].get(checkpoint.size) != checkpoint.root.hex():
                yield Finding(
                    "CF-VERIFY-005",
                    name,
                    f"log {self.name} cites another history of it",
                    "restore it from a copy",
                )

    # -- blobs and references -----------------------------------------------------------------------------------------

    def _blob(self, blob: BlobSeen) -> None:
        data = blob.data
        self._blobs.setdefault(bytes.fromhex(blob.sha256), len(data))
        if _CITABLE.match(data):
            self._citable[blob.sha256] = blob.place
        if data[:1] in (b"{", b"[") and (b'"$ref"' in data or data.startswith(b'{"add":')):
            self._composite(blob.sha256, data)

    def _composite(self, sha256: str, data: bytes) -> None:
        """Note a composite whose parts are not all there; it matters only if it is cited as one."""
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        cited = list(_inner(value))
        if data.startswith(b'{"add":') and type(value) is dict and value.get("parent"):
            parent = value["parent"]
            if type(parent) is not str or not _HEX64.fullmatch(parent):
                parent = "0" * 64
            cited.append(Reference(parent, _ANY_SIZE, MEDIA_FOLD))
        lacking = [ref for ref in cited if not self._there(ref)]
        if lacking:
            self._hollow[sha256] = lacking

    def _there(self, ref: Reference) -> bool:
        if self._lacks(ref):
            return False
        return ref.media not in _COMPOSITE or ref.sha256 not in self._hollow or self._filled(ref.sha256)

    def _lacks(self, ref: Reference) -> bool:
        found = self._blobs.get(bytes.fromhex(ref.sha256))
        return found is None or ref.size not in (found, _ANY_SIZE)

    def _filled(self, sha256: str) -> bool:
        """Whether what a composite lacked is there now: its bytes may have come earlier, as somebody's text."""
        stack = [sha256]
        while stack:
            lacking = self._hollow.get(stack[-1], [])
            if any(self._lacks(ref) for ref in lacking):
                return False
            deeper = [ref.sha256 for ref in lacking if ref.media in _COMPOSITE and ref.sha256 in self._hollow]
            if deeper:
                stack += deeper
            else:
                self._hollow.pop(stack.pop(), None)
        return True

    # -- entries ------------------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry) -> None:
        at = f"{self.name} entry {entry.index}"
        if not records.is_record(entry.body):
            self.counts["statements"] += 1
            self._statement(entry, at)
            return
        self.counts["records"] += 1
        for ref in references_in(entry.body):
            if not self._there(ref):
                self._say(
                    "CF-VERIFY-010", at, f"{entry.op}: stored bytes it cites are missing ({ref.sha256[:12]})"
                )
        if not records.fits(entry.body_bytes, entry.body):
            self._say("CF-VERIFY-012", at, f"{entry.op}: longer than a record may be, or with a float or null")
        content, context = entry.body["content"], entry.body["context"]
        received = context.get("handoffs", [])
        for digest in received if type(received) is list else [None]:
            if type(digest) is not str or not self._known(digest):
                self._say("CF-VERIFY-011", at, f"{entry.op}: the handoff it received is not in this log")
        self._digests.add(bytes.fromhex(sha256_hex(entry.body_bytes)))
        if entry.op == "session":
            self._session(context, at)
        elif entry.op == "recovered":
            self._say("CF-VERIFY-020", at, "the writer stopped uncleanly before", verdict="incomplete")
        elif entry.op == "loss":
            count = context.get("count", 1)
            self.counts["losses"] += count if type(count) is int else 1
            self._say(
                "CF-VERIFY-021", at, f"not recorded: {content.get('name')} ({count})", verdict="incomplete"
            )
        else:
            self._tie(content, context, at)

    def _tie(self, content: dict[str, Any], context: dict[str, Any], at: str) -> None:
        """Starts and ends joined by ``call``; a run's last record ties how many there were."""
        call, run, phase = context.get("call"), context.get("run"), content.get("phase")
        if type(call) is not str or type(run) is not str:
            return
        if phase == "start":
            if call == run:
                self.counts["runs"] += 1
            self._open[call] = run
            self._started[run] = self._started.get(run, 0) + 1
        elif phase == "end" and context.get("late") is not True:
            if self._open.pop(call, None) is None:
                self._say("CF-VERIFY-022", at, "an end without a start", verdict="incomplete")
            self._ended[run] = self._ended.get(run, 0) + 1
            totals = content.get("totals")
            if type(totals) is dict:
                counted = {"ended": self._ended.pop(run, 0), "started": self._started.pop(run, 0)}
                if totals != counted:
                    self._say(
                        "CF-VERIFY-023",
                        at,
                        f"the run had {totals}, the log holds {counted}",
                        verdict="incomplete",
                    )

    def _session(self, context: dict[str, Any], at: str) -> None:
        origin, spki = context.get("origin"), context.get("spki")
        try:
            public = keys.PublicKey.from_spki(base64.b64decode(str(spki), validate=True))
        except (CounterfoilError, binascii.Error, ValueError):
            self._say("CF-VERIFY-030", at, "the session names no usable key")
            return
        if origin != f"{public.keyid}/{self.name}" or (self._origin and origin != self._origin):
            self._say("CF-VERIFY-031", at, "the session does not belong to this log")
            return
        if not self._origin:
            self._origin, self._identity = origin, public
            self._vkey = notes.vkey(origin, public)
            if self._keyring.resolve(public.keyid, public.spki) is None:
                self._say(
                    "CF-VERIFY-032",
                    self.name,
                    "signed by a key that is not pinned here",
                    verdict="cannot-tell",
                    hint="get the fingerprint from the evidence's owner, then: counterfoil keys pin FINGERPRINT",
                )
        self._bound.clear()  # actors are bound anew in every session
        self._left_open(at)
        replaced = context.get("replaced")
        for one in replaced if type(replaced) is list else []:
            if type(one) is dict:
                name, size = str(one.get("origin", "")).rpartition("/")[2], one.get("size")
                message = f"log {name} ({size} entries) stood here before the folder was made anew"
                self.notes.append(
                    Finding(
                        "CF-VERIFY-060", at, message, "restore it if nobody removed it on purpose", "intact"
                    )
                )
        self._cites(context.get("seen"), at)

    def _cites(self, listed: object, at: str) -> None:
        """Note the other logs' checkpoints that a session cites, in its record or by one list it references."""
        apart = is_reference(listed)
        if apart:
            try:
                listed = canonical.loads(self._stored(Reference.from_dict(listed)))
            except CounterfoilError as exc:
                self._say(exc.code, at, f"the list of other logs cannot be read: {exc.message}")
                return
        for one in listed if type(listed) is list else []:
            if type(one) is dict and type(one.get("log")) is str and is_reference(one.get("note")):
                ref = Reference.from_dict(one["note"])
                if self._there(ref):
                    self._seen.append((one["log"], self._stored(ref)))
                elif apart:
                    self._say("CF-VERIFY-010", at, "the checkpoint of another log that it cites is missing")

    def _stored(self, ref: Reference) -> bytes:
        """Bytes of a checkpoint, or list of such, stored before; empty when they are something else."""
        place = self._citable.get(ref.sha256)
        try:
            return b"" if place is None else read_blob(self._store, self.name, place)
        except CounterfoilError:
            return b""

    # -- signatures ---------------------------------------------------------------------------------------------------

    def _statement(self, entry: Entry, at: str) -> None:
        try:
            envelope = Envelope.parse(entry.body)
            if envelope.to_bytes() != entry.body_bytes:
                self._say("CF-VERIFY-040", at, "an envelope is not in its normal form")
                return
            ring = _Ring(self._identity, self._bound, self._keyring)
            signers = envelope.verify(ring)
            statement = statements.parse(envelope.payload)
        except CounterfoilError as exc:
            self._unverified(entry, at, exc)
            return
        self._digests.add(bytes.fromhex(statement.digest))
        predicate = statement.predicate
        if isinstance(predicate, statements.Binding):
            self._binding(predicate, signers, at)
        elif predicate.sender.key not in signers:
            self._say("CF-VERIFY-041", at, "a statement names another key than the one that signed it")
        elif isinstance(predicate, statements.Handoff):
            self.counts["handoffs"] += 1
            self._handoff(predicate, at)
        elif predicate.status == "accepted":
            self._accepted(predicate, at)

    def _unverified(self, entry: Entry, at: str, exc: CounterfoilError) -> None:
        """A statement nobody known signed is a forgery, unless it came from a signer who is simply not pinned here."""
        if exc.code in _UNKNOWN:
            self._say(exc.code, at, exc.message, verdict="cannot-tell", hint=exc.hint or "")
            return
        try:
            payload = Envelope.parse(entry.body).payload
            predicate = statements.parse(payload).predicate
        except CounterfoilError as inner:
            self._say(inner.code, at, inner.message)
            return
        self._digests.add(bytes.fromhex(sha256_hex(payload)))
        # Signed under the sender's own name, by a key that nobody here can look up.
        if (
            exc.code == "CF-DSSE-010"
            and isinstance(predicate, statements.Handoff)
            and predicate.proof == "countersigned"
            and predicate.sender.key in {one.keyid for one in Envelope.parse(entry.body).signatures}
        ):
            self.counts["handoffs"] += 1
            self._say(
                "CF-VERIFY-042",
                at,
                "a handoff from a sender whose key is not pinned here",
                verdict="cannot-tell",
                hint="get the fingerprint from the sender, then: counterfoil keys pin FINGERPRINT",
            )
            return
        self._say(exc.code, at, exc.message)

    def _binding(self, binding: statements.Binding, signers: list[str], at: str) -> None:
        try:
            public = keys.PublicKey.from_spki(base64.b64decode(binding.spki, validate=True))
        except (CounterfoilError, binascii.Error, ValueError):
            self._say("CF-VERIFY-043", at, "a binding names no usable key")
            return
        if self._identity is None or self._identity.keyid not in signers or binding.origin != self._origin:
            self._say("CF-VERIFY-043", at, "a binding is not the identity's own for this log")
        elif public.keyid != binding.key or public.keyid == self._identity.keyid:
            self._say("CF-VERIFY-043", at, "a binding's key and digest differ")
        else:
            self._bound[public.keyid] = (binding.actor, public)

    def _handoff(self, handoff: statements.Handoff, at: str) -> None:
        if not self._there(Reference(handoff.content.payload, handoff.payload.size, handoff.payload.media)):
            self._say("CF-VERIFY-046", at, "the payload of a handoff is not in this log")
        own = handoff.own
        ours = handoff.proof == "recorded" or (self._identity and handoff.sender.key == self._identity.keyid)
        if (
            ours
            and own is not None
            and (own.origin != self._origin or self.checkpoints.get(own.size) != own.root)
        ):
            self._say("CF-VERIFY-047", at, "a handoff names a checkpoint that this log never had")
        if handoff.proof != "recorded":
            return
        bound = self._bound.get(handoff.sender.key)
        if bound is None or bound[0] != handoff.sender.actor:
            self._say("CF-VERIFY-044", at, "a handoff is signed by a key bound to another actor")
        for parent in handoff.parents:
            if not self._known(parent.digest):
                self._say("CF-VERIFY-045", at, "a handoff cites a parent that is not in this log")
        if handoff.parentSet is not None and not self._parents_there(handoff.parentSet):
            self._say(
                "CF-VERIFY-045",
                at,
                "a handoff cites a list of parents that is not, or not whole, in this log",
            )

    def _accepted(self, receipt: statements.Receipt, at: str) -> None:
        if not self._known(receipt.handoff):
            self._say("CF-VERIFY-048", at, "a receipt accepts a handoff that is not in this log")
        elif receipt.handoff in self._receipts:
            self._say("CF-VERIFY-048", at, "a handoff was accepted twice")
        self._receipts.add(receipt.handoff)

    def _parents_there(self, listed: statements.ParentSet) -> bool:
        if self._blobs.get(bytes.fromhex(listed.sha256)) != listed.size:
            return False
        try:
            parents = statements.parse_parents(
                self._stored(Reference(listed.sha256, listed.size, MEDIA_JSON))
            )
        except CounterfoilError:
            return False
        return len(parents) == listed.count and all(self._known(parent.digest) for parent in parents)

    def _known(self, digest: str) -> bool:
        try:
            return bytes.fromhex(digest) in self._digests
        except ValueError:
            return False

    # -- checkpoints, tail, head --------------------------------------------------------------------------------------

    def _checkpoint(self, seen: CheckpointSeen) -> None:
        at = f"{self.name} checkpoint at entry {seen.size}"
        if not self._vkey:
            self._say("CF-VERIFY-030", at, "a checkpoint before the session that names its key")
            return
        try:
            checkpoint = notes.parse_own_checkpoint(seen.note, self._vkey)
        except CounterfoilError as exc:
            self._say(exc.code, at, exc.message)
            return
        if (checkpoint.size, checkpoint.root) != (seen.size, seen.root) or checkpoint.origin != self._origin:
            self._say("CF-VERIFY-050", at, "the checkpoint does not match the entries")
        elif not seen.stored_ok:
            self._say("CF-VERIFY-051", at, "the stored bytes are not the ones that were written")
        else:
            self.checkpoints[seen.size] = seen.root.hex()

    def _left_open(self, where: str) -> None:
        """A clean stop ends every call: one that is open after its writer is gone was cut off."""
        found, self._unended = len(self._open) - self._unended, len(self._open)
        if found > 0:
            self._say("CF-VERIFY-025", where, f"{found} calls were never ended", verdict="incomplete")

    def _tail(self, *, live: bool) -> None:
        scan = self._scan
        tail = scan.index - scan.covered
        self.counts["tail"] = max(tail, 0)
        if scan.broken or (scan.clean and self._torn is None):
            return
        if live:
            return
        where = self._torn.where if self._torn is not None else self.name
        what = "bytes that are no whole chunk" if self._torn is not None else f"{tail} entries"
        self._say(
            "CF-VERIFY-024",
            where,
            f"after the last checkpoint stand {what}",
            verdict="incomplete",
            hint="a process was killed, or the end was cut: compare with a checkpoint held elsewhere",
        )

    def _remembered(self) -> None:
        """The head this machine remembers; elsewhere only a checkpoint held by somebody else shows a cut tail."""
        head = self._heads.get(self._origin) if self._origin else self._by_name()
        if head is None:
            there = self._by_name()
            if there is not None and there.evidence == self._store.uri:
                self._say(
                    "CF-VERIFY-053", self.name, "another log stood here by this name, signed by another key"
                )
            return
        if self._scan.covered < head.size and not self._scan.broken:
            self._say(
                "CF-VERIFY-052",
                self.name,
                f"the log ends at entry {self._scan.covered}, this machine remembers {head.size}",
                hint="entries were cut off or an older copy was put back: restore the newest copy",
            )
        elif self.checkpoints.get(head.size) != head.root and all(
            finding.verdict != "broken" for finding in self._findings
        ):
            self._say("CF-VERIFY-053", self.name, "the log is not the one this machine remembers")

    def _by_name(self) -> keys.Head | None:
        found = [head for origin, head in self._heads.items() if origin.endswith(f"/{self.name}")]
        return found[0] if found else None

    def _say(
        self, code: str, where: str, message: str, *, verdict: Verdict = "broken", hint: str = ""
    ) -> None:
        if code in _UNKNOWN:
            verdict, hint = "cannot-tell", hint or "read this evidence with a newer Counterfoil"
        if not hint and verdict == "broken":
            hint = "do not rely on what follows: compare with another copy of this evidence"
        self._findings.append(Finding(code, where, message, hint, verdict))


class _Ring:
    """Keys a statement of this log may be signed with: the identity, bound actors, pinned senders."""

    __slots__ = ("_bound", "_identity", "_keyring")

    def __init__(
        self,
        identity: keys.PublicKey | None,
        bound: dict[str, tuple[str, keys.PublicKey]],
        keyring: keys.Keyring,
    ) -> None:
        self._identity = identity
        self._bound = bound
        self._keyring = keyring

    def get(self, keyid: str) -> keys.PublicKey | None:
        """The key behind a keyid, None when it is unknown here."""
        if self._identity is not None and keyid == self._identity.keyid:
            return self._identity
        if keyid in self._bound:
            return self._bound[keyid][1]
        return self._keyring.get(keyid)

    def resolve(self, keyid: str, spki: bytes) -> keys.PublicKey | None:
        """A pinned key that the envelope carries along."""
        return self._keyring.resolve(keyid, spki)


def _inner(value: object) -> Iterator[Reference]:
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if node.keys() == {"$ref"} and is_reference(node["$ref"]):
                yield Reference.from_dict(node["$ref"])
            else:
                stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)


def is_live(origin: str) -> bool:
    """Whether a writer on this machine holds a log's lock right now (never creates the lock)."""
    try:
        fd = os.open(keys.lock_path(origin), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, CounterfoilError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
