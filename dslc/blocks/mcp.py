"""The block `mcp NAME`: a server of the Model Context Protocol whose tools agents may use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Block
from dslc.blocks.values.types import (
    HEAD,
    Duration,
    EnvValue,
    Form,
    HeaderName,
    HeaderValue,
    Name,
    Relation,
    SecretReference,
    Url,
)

_LONGEST_CALL = timedelta(minutes=10)
_Variable = Annotated[str, Form(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of an environment variable")]
_Server = Annotated[Name, HEAD, Form(r"[^.]+", "a name without a dot")]


def _deadline(description: str) -> Duration:
    found: Duration = Field(
        default=timedelta(minutes=1), ge=timedelta(seconds=1), le=_LONGEST_CALL, description=description
    )
    return found


class McpServer(Block):
    """A server of the Model Context Protocol, whose tools agents may use as `NAME.tool`.

    It is a program that the daemon starts (`command`), or a service (`url`). Nothing is started or called because it is
    written here: `symbi mcp-server approve NAME` approves the command or the URL, with the tools that the server has.
    What changes later is not used until it is approved again. See [tools of MCP servers](../mcp-servers.md).

    The name has no dot. An agent names the tools in `tools`, one by one or by pattern.

    ```symbiont
    mcp github {
        command ["npx", "-y", "@modelcontextprotocol/server-github"]
        env {
            GITHUB_PERSONAL_ACCESS_TOKEN "secret://env/GITHUB_TOKEN"
        }
    }

    agent reviewer {
        model ollama
        tools ["github.*"]
    }
    ```
    """

    name: _Server = Field(description="The name by which agents refer to its tools, without a dot.")
    command: Annotated[
        tuple[str, ...] | None, Relation(one_of=("command", "url"), excludes=("url",)), Field(min_length=1)
    ] = Field(
        default=None,
        description="The program to start and its arguments; it speaks the protocol over standard input and output. It "
        "is not run by a shell.",
        examples=[("npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/notes")],
    )
    env: Annotated[Mapping[_Variable, EnvValue], Relation(needs=("command",))] = Field(
        default={},
        repr=False,
        description="Environment variables of the program, each a text or a reference to a secret. Besides these it "
        "has only `PATH`, `HOME` and `LANG`.",
    )
    url: Url | None = Field(
        default=None,
        description="The address of a service, which speaks the protocol over streamable HTTP.",
        examples=["https://mcp.example.org/mcp"],
    )
    token: Annotated[SecretReference | None, Relation(needs=("url",))] = Field(
        default=None,
        repr=False,
        description="A reference to the token that is sent to the service, if it wants one. For a service with OAuth "
        "use `symbi mcp-server login NAME` instead.",
        examples=["secret://env/MCP_TOKEN"],
    )
    headers: Annotated[Mapping[HeaderName, HeaderValue], Relation(needs=("url",))] = Field(
        default={},
        repr=False,
        description="Further headers that are sent to the service, each a text or a reference to a secret.",
    )
    trust_hints: bool = Field(
        default=False,
        description="Believes what the server says about its tools: that one only reads, can be repeated, or deletes. "
        "Otherwise each of them counts as one that changes something and cannot be repeated.",
        examples=[True],
    )
    timeout: Duration = _deadline("Timeout of a call.")
    start_timeout: Duration = _deadline("Timeout of a start, until the tools are listed.")
