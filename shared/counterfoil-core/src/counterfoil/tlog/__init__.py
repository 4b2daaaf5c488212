"""Logs as C2SP tlog-tiles, and proofs that a log continues a checkpoint kept elsewhere."""
