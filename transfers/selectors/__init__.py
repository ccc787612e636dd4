"""Reads for pages and commands, one module a subject."""
