"""The command `completion` of `dslc` and `symbi`, and completion of paths and codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from dslc.cli.terminal import put

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def completion_command(program: str, adapt: Callable[[str, str], str] = lambda _shell, script: script) -> click.Command:
    """Return the command `completion` of `program`. `adapt` gets the shell and click's script, and returns the script
    to print."""
    install = f"""\
To enable it in every new shell:

\b
    bash  echo 'eval "$({program} completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$({program} completion zsh)"' >> ~/.zshrc
    fish  {program} completion fish > ~/.config/fish/completions/{program}.fish
"""

    @click.command(epilog=install, short_help="Print the completion script of a shell.")
    @click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
    @click.pass_context
    def completion(ctx: click.Context, shell: str) -> None:
        """Print the script with which a shell completes commands, options, their values, and files."""
        from click.shell_completion import ShellComplete, get_completion_class

        kind = get_completion_class(shell)
        assert kind is not None
        script = kind(ctx.find_root().command, {}, program, f"_{program.upper()}_COMPLETE")
        # Not the method of bash's own class, which runs bash to ask for its version.
        put(adapt(shell, ShellComplete.source(script)))

    return completion


def _with_folders(shell: str, source: str) -> str:
    """Return click's script; for bash changed to complete folders in addition to the files found here."""
    if shell != "bash":
        return source
    changes = {
        "COMPREPLY=()\n            compopt -o dirnames": "compopt -o plusdirs -o filenames",
        "COMPREPLY+=($value)": 'COMPREPLY+=("$value")',
    }
    for before, after in changes.items():
        assert before in source, "click's script has changed"
        source = source.replace(before, after)
    return source


completion = completion_command("dslc", _with_folders)


def complete_paths(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the .symbiont files whose path begins with `incomplete`, and a request for the shell's list of folders."""
    from click.shell_completion import CompletionItem

    from dslc.files import SUFFIX

    folder, begun = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or os.curdir) as entries:  # noqa: PTH111 - keep the path as typed
            names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file())
    except OSError:
        names = []
    files = [os.path.join(folder, name) for name in names if name.startswith(begun)]  # noqa: PTH118
    return [*(CompletionItem(name) for name in files), CompletionItem(incomplete, type="dir")]


def complete_codes(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the codes that begin with `incomplete`, in any case, with their titles."""
    from click.shell_completion import CompletionItem

    from dslc.diagnostics.diagnostic import CODES

    codes = [code for code in CODES if code.startswith(incomplete.upper())]
    return [CompletionItem(code, help=CODES[code][1]) for code in codes]
