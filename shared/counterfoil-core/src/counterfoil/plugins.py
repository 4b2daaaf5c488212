"""Loads plugins by entry point, keeps broken ones apart and calls the hooks with types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

import pluggy

from counterfoil import hooks
from counterfoil._files import read_given
from counterfoil.errors import PluginError
from counterfoil.hooks import Deny, Instrumentation, Redaction, Transfer

__all__ = ["GROUP", "Broken", "Plugin", "Plugins", "loaded"]

T = TypeVar("T")
GROUP: Final = "counterfoil"
_BROKEN_MAX: Final = 100
_LIMIT: Final = 16 << 20
"""Bytes of a settings file."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plugin: entry point name, distribution and version."""

    name: str
    distribution: str
    version: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that could not be loaded or broke a hook's contract, and why."""

    name: str
    reason: str


class Plugins:
    """The plugins of one process.

    ``allow`` is a comma-separated list of entry point names (``none`` for no plugin); default: all installed. A name
    that is not installed counts as broken: who named it relies on it.
    """

    def __init__(self, *, allow: str | None = None, points: Sequence[EntryPoint] | None = None) -> None:
        self._manager = pluggy.PluginManager("counterfoil")
        self._manager.add_hookspecs(hooks)
        self.plugins: list[Plugin] = []
        self.broken: list[Broken] = []
        wanted = None if not allow else {name.strip() for name in allow.split(",")} - {"none", ""}
        found = entry_points(group=GROUP) if points is None else points
        for point in sorted(found, key=lambda one: one.name):
            if wanted is None or point.name in wanted:
                self._load(point)
        for name in sorted((wanted or set()) - {point.name for point in found}):
            self._note(Broken(name, "is not installed"))

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin object by hand.

        Raises PluginError: CF-PLUGIN-002 when it names an unknown hook, CF-PLUGIN-001 when the name is taken (the
        plugin that has it stays: it may be the one that denies).
        """
        if self._manager.has_plugin(name):
            raise PluginError(
                f"another plugin is called {name}",
                code="CF-PLUGIN-001",
                where=name,
                hint="uninstall one of the two",
            )
        try:
            self._manager.register(plugin, name=name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as exc:
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            raise PluginError(
                f"plugin {name} does not fit the hook spec: {exc}",
                code="CF-PLUGIN-002",
                where=name,
                hint="install the version of the plugin that fits this Counterfoil",
            ) from exc

    def instrumentations(self) -> list[Instrumentation]:
        """Adapters of all plugins; one that fails is listed as broken."""
        return self._listed("counterfoil_instrumentations", Instrumentation)[0]

    def redactions(self) -> list[Redaction]:
        """Redaction rules; raises PluginError (CF-PLUGIN-003) when a plugin fails, since storing would leak."""
        rules, failed = self._listed("counterfoil_redactions", Redaction)
        for broken in failed:
            raise PluginError(
                f"plugin {broken.name} failed to give its redactions: {broken.reason}",
                code="CF-PLUGIN-003",
                where=broken.name,
                hint="mend or disable the plugin (COUNTERFOIL_PLUGINS)",
            )
        return rules

    def check_transfer(self, transfer: Transfer) -> Deny | None:
        """The first refusal of any plugin; a failing plugin refuses."""
        answers, failed = self._each("counterfoil_check_transfer", transfer=transfer)
        for name, answer in answers:
            if isinstance(answer, Deny):
                return Deny(f"{name}: {answer.reason}")
            if answer is not None:
                return Deny(f"{name}: answered neither Deny nor None")
        return Deny(f"{failed[0].name}: the check failed") if failed else None

    def has(self, hook: str) -> bool:
        """Whether any plugin implements a hook (so that nobody pays for an empty call)."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def sealed(self, log: str, entries: Sequence[tuple[int, str, bytes]]) -> None:
        """Tell plugins what is on disk."""
        self._each("counterfoil_sealed", log=log, entries=entries)

    def _load(self, point: EntryPoint) -> None:
        try:
            self.register(point.load(), point.name)
        except PluginError as exc:
            self._note(Broken(point.name, exc.message))
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # a module may even try to end the program
            self._note(Broken(point.name, f"{type(exc).__name__} while importing {point.value}"))
        else:
            dist = point.dist
            self.plugins.append(Plugin(point.name, dist.name if dist else "", dist.version if dist else ""))

    def _note(self, broken: Broken) -> None:
        if broken not in self.broken and len(self.broken) < _BROKEN_MAX:
            self.broken.append(broken)

    def _each(self, hook: str, **arguments: object) -> tuple[list[tuple[str, object]], list[Broken]]:
        """Call every implementation apart, so that one that raises cannot hide the others' answers."""
        out: list[tuple[str, object]] = []
        failed: list[Broken] = []
        for impl in getattr(self._manager.hook, hook).get_hookimpls():
            try:
                out.append((impl.plugin_name, impl.function(*(arguments[name] for name in impl.argnames))))
            except Exception as exc:
                failed.append(Broken(impl.plugin_name, f"{hook} raised {type(exc).__name__}"))
        for broken in failed:
            self._note(broken)
        return out, failed

    def _listed(self, hook: str, kind: type[T]) -> tuple[list[T], list[Broken]]:
        answers, failed = self._each(hook)
        good: list[T] = []
        for name, found in answers:
            try:
                listed = [] if found is None else list(found)  # type: ignore[call-overload]
                wrong = not all(isinstance(one, kind) for one in listed)
            except Exception:
                listed, wrong = [], True
            good += [one for one in listed if isinstance(one, kind)]
            if wrong:
                failed.append(Broken(name, f"returned something that is no {kind.__name__}"))
                self._note(failed[-1])
        return good, failed


_loaded: Plugins | None = None


def loaded() -> Plugins:
    """This process's plugins, loaded once."""
    global _loaded
    if _loaded is None:
        _loaded = Plugins(allow=os.environ.get("COUNTERFOIL_PLUGINS") or _from_file())
    return _loaded


def _from_file() -> str | None:
    """What the project's file allows; settings are slow to import, so a look comes first."""
    for name in ("counterfoil.toml", "pyproject.toml"):
        try:
            data = read_given(name, limit=_LIMIT)
        except OSError:
            continue
        if b"counterfoil" in name.encode() + data and b"plugins" in data:
            from counterfoil.settings import load

            return load().plugins
    return None
