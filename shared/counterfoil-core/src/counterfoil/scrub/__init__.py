"""Finds bit rot in evidence and mends it from mirrors that are proven equal."""
