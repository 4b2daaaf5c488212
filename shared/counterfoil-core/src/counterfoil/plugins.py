"""Loads plugins by entry point, keeps broken ones apart and calls the hooks with types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

import pluggy

from counterfoil import hooks
from counterfoil.errors import PluginError
from counterfoil.hooks import Deny, Instrumentation, Redaction, Transfer

__all__ = ["GROUP", "Broken", "Plugin", "Plugins", "loaded"]

T = TypeVar("T")
GROUP: Final = "counterfoil"


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

    ``allow`` is a comma-separated list of entry point names (``none`` for no plugin); default: all installed.
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

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin object by hand; raises PluginError (CF-PLUGIN-002) when it names an unknown hook."""
        try:
            self._manager.register(plugin, name=name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as exc:
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            raise PluginError(
                f"plugin {name} does not fit the hook spec: {exc}", code="CF-PLUGIN-002", where=name
            ) from exc

    def instrumentations(self) -> list[Instrumentation]:
        """Adapters of all plugins; one that fails is listed as broken."""
        return [
            one
            for name, found in self._each("counterfoil_instrumentations")
            for one in self._typed(name, found, Instrumentation)
        ]

    def redactions(self) -> list[Redaction]:
        """Redaction rules; raises PluginError (CF-PLUGIN-003) when a plugin fails, since storing would leak."""
        before = len(self.broken)
        rules = [
            one
            for name, found in self._each("counterfoil_redactions")
            for one in self._typed(name, found, Redaction)
        ]
        if len(self.broken) > before:
            broken = self.broken[-1]
            raise PluginError(
                f"plugin {broken.name} failed to give its redactions: {broken.reason}",
                code="CF-PLUGIN-003",
                where=broken.name,
                hint="mend or disable the plugin (COUNTERFOIL_PLUGINS)",
            )
        return rules

    def check_transfer(self, transfer: Transfer) -> Deny | None:
        """The first refusal of any plugin; a failing plugin refuses."""
        before = len(self.broken)
        for name, answer in self._each("counterfoil_check_transfer", transfer=transfer):
            if isinstance(answer, Deny):
                return Deny(f"{name}: {answer.reason}")
            if answer is not None:
                return Deny(f"{name}: answered neither Deny nor None")
        if len(self.broken) > before:
            return Deny(f"{self.broken[-1].name}: the check failed")
        return None

    def has(self, hook: str) -> bool:
        """Whether any plugin implements a hook (so that nobody pays for an empty call)."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def sealed(self, log: str, entries: Sequence[tuple[int, str, bytes]]) -> None:
        """Tell plugins what is on disk."""
        for _ in self._each("counterfoil_sealed", log=log, entries=entries):
            pass

    def _load(self, point: EntryPoint) -> None:
        try:
            self.register(point.load(), point.name)
        except PluginError as exc:
            self.broken.append(Broken(point.name, exc.message))
        except Exception as exc:
            self.broken.append(Broken(point.name, f"{type(exc).__name__} while importing {point.value}"))
        else:
            dist = point.dist
            self.plugins.append(Plugin(point.name, dist.name if dist else "", dist.version if dist else ""))

    def _each(self, hook: str, **arguments: object) -> list[tuple[str, object]]:
        """Call every implementation apart, so that one that raises cannot hide the others' answers."""
        out: list[tuple[str, object]] = []
        for impl in getattr(self._manager.hook, hook).get_hookimpls():
            try:
                out.append((impl.plugin_name, impl.function(*(arguments[name] for name in impl.argnames))))
            except Exception as exc:
                self.broken.append(Broken(impl.plugin_name, f"{hook} raised {type(exc).__name__}"))
        return out

    def _typed(self, name: str, found: object, kind: type[T]) -> list[T]:
        try:
            listed = list(found)  # type: ignore[call-overload]
        except TypeError:
            listed = [found]
        good = [one for one in listed if isinstance(one, kind)]
        if len(good) != len(listed):
            self.broken.append(Broken(name, f"returned something that is no {kind.__name__}"))
        return good


_loaded: Plugins | None = None


def loaded() -> Plugins:
    """This process's plugins, loaded once."""
    global _loaded
    if _loaded is None:
        _loaded = Plugins(allow=os.environ.get("COUNTERFOIL_PLUGINS"))
    return _loaded
