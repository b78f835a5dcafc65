"""`symbi completion`: the script that makes a shell complete commands."""

from __future__ import annotations

from dslc.cli.completion import completion_command

completion = completion_command("symbi")
