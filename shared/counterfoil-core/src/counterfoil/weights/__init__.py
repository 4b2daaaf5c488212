"""Model weights as evidence: hashed file by file, named by one root, signed into the log, cited by model calls."""
