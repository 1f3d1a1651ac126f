"""Reproduce: each theorem at real sizes, in one command."""
