"""Moves old logs to another place, with a signed statement that says where, and tells what is due.

``archive`` and ``report`` are what ``counterfoil archive`` does. Source: ``shared/spec/log.md``, *Archived logs*.
"""

from __future__ import annotations

from counterfoil.archiving.moving import Moved, archive
from counterfoil.archiving.surveying import LogState, Survey, survey

__all__ = ["LogState", "Moved", "Survey", "archive", "survey"]
