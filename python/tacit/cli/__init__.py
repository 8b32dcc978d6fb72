"""The command `tacit`: one module for each command, and their common parts."""

from __future__ import annotations

from tacit.cli.command import build_parser, main

__all__ = ["build_parser", "main"]
