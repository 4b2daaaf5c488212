"""Moves old logs to another place, with a signed statement that says where, and tells what is due.

Source: ``shared/spec/log.md``, *Archived logs*, *Archiving*.
"""
