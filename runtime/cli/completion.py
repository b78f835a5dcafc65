"""`symbi completion`: the script that makes a shell complete commands."""

from __future__ import annotations

import click

_VARIABLE = "_SYMBI_COMPLETE"
_INSTALL = """\
To enable it in every new shell:

\b
    bash  echo 'eval "$(symbi completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(symbi completion zsh)"' >> ~/.zshrc
    fish  symbi completion fish > ~/.config/fish/completions/symbi.fish
"""


@click.command(epilog=_INSTALL, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, options, their values, and files."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "symbi", _VARIABLE)
    # Not the method of bash's own class, which runs bash to ask for its version.
    click.echo(ShellComplete.source(script))
