"""The version, written once for the code; a test keeps it equal to the packages' metadata."""

__version__ = "0.1.0"
