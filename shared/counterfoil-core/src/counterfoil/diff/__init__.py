"""Compares two runs, step by step and value by value."""
