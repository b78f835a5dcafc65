"""The smallest server of the SDK: `python -m bench.mcp` compares with it."""

from mcp.server import MCPServer

server = MCPServer("hello")


@server.tool()
def hello(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


if __name__ == "__main__":
    server.run()
