"""`dslc completion`, and what can be completed where a path or a code stands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from dslc.cli.terminal import put

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_VARIABLE = "_DSLC_COMPLETE"
_INSTALL = """\
To enable it in every new shell:

\b
    bash  echo 'eval "$(dslc completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(dslc completion zsh)"' >> ~/.zshrc
    fish  dslc completion fish > ~/.config/fish/completions/dslc.fish
"""


@click.command(epilog=_INSTALL, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, options, formats, codes and .symbiont files."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "dslc", _VARIABLE)
    # Not the method of bash's own class, which runs bash to ask for its version.
    source = ShellComplete.source(script)
    put(_with_folders(source) if shell == "bash" else source)


def _with_folders(source: str) -> str:
    """Click's script for bash, with folders completed beside the files found here instead of in their place."""
    changes = {
        "COMPREPLY=()\n            compopt -o dirnames": "compopt -o plusdirs -o filenames",
        "COMPREPLY+=($value)": 'COMPREPLY+=("$value")',
    }
    for before, after in changes.items():
        assert before in source, "click's script has changed"
        source = source.replace(before, after)
    return source


def complete_paths(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The .symbiont files that a path begun with `incomplete` may mean, and the shell's own list of folders."""
    from click.shell_completion import CompletionItem

    from dslc.files import SUFFIX

    folder, begun = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or os.curdir) as entries:  # noqa: PTH111 - as it was typed
            names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file())
    except OSError:
        names = []
    files = [os.path.join(folder, name) for name in names if name.startswith(begun)]  # noqa: PTH118
    return [*(CompletionItem(name) for name in files), CompletionItem(incomplete, type="dir")]


def complete_codes(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The codes that begin so, whichever way they are written, with their titles."""
    from click.shell_completion import CompletionItem

    from dslc.diagnostics.diagnostic import CODES

    codes = [code for code in CODES if code.startswith(incomplete.upper())]
    return [CompletionItem(code, help=CODES[code][1]) for code in codes]
