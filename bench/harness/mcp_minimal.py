"""The smallest server of the SDK, with which `python -m bench.mcp` compares."""

from mcp.server import MCPServer

server = MCPServer("hello")


@server.tool()
def hello(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


if __name__ == "__main__":
    server.run()
