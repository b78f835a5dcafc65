"""The language server: `serve` runs it on standard input and output until the client ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from dslc.catalog import Catalog
from dslc.language_server.names import RenameRefused
from dslc.language_server.protocol.features import FEATURES, Features
from dslc.language_server.protocol.session import LanguageSession
from dslc.language_server.protocol.stream import Input, Output
from dslc.version import version
from dslc.vocabulary import Vocabulary

_LOG = logging.getLogger("dslc.language_server")
_REQUEST_FAILED = -32803
_OWN_DOCUMENTS = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)


class Protocol(LanguageServerProtocol):
    """pygls' protocol, which here also answers malformed requests."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Convert a JSON object to a message; answers a malformed request with an error, then raises."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if "method" in data and isinstance(data.get("id"), str | int):
                self._send_response(data["id"], error=JsonRpcInvalidParams().to_response_error())
            raise


class Server(LanguageServer):
    """pygls' server, which here does not show its own errors in the editor."""

    def __init__(self) -> None:
        super().__init__("dslc", version(), protocol_cls=Protocol)
        # The session stores the documents. pygls' own copy is not needed, and splits lines at characters such as
        # U+2028.
        for method in _OWN_DOCUMENTS:
            self.protocol.fm.builtin_features.pop(method, None)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error without its message, which may contain text of a document, with secrets.

        A refused rename is not logged: the response has the reason.
        """
        if not (isinstance(error, JsonRpcException) and error.code == _REQUEST_FAILED):
            log_failure("the protocol", error)


def log_failure(what: str, error: BaseException) -> None:
    """Log the type and location of an error, not its message, which may contain text of a document."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    _LOG.error("%s failed: %s at %s", what, type(error).__name__, where or "the beginning")


def build() -> Server:
    """Return a server with all handlers registered."""
    server = Server()
    session = LanguageSession(server, Vocabulary(Catalog.installed()), log_failure)
    features = Features(session)
    for method, handle in session.handlers().items():
        server.feature(method)(_guard(method, handle))
    for method, (name, options) in FEATURES.items():
        server.feature(method, options)(_guard(method, getattr(features, name)))
    return server


def _guard(method: str, handle: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a handler: if it fails, the error is logged and the response is null."""

    def call(params: Any) -> Any:
        try:
            return handle(params)
        except RenameRefused as refused:
            raise JsonRpcException(str(refused), _REQUEST_FAILED) from None
        except Exception as error:
            log_failure(method, error)
            return None

    return call


def serve() -> int:
    """Serve until the client ends the server or disconnects. Returns the exit code: 0 after an orderly end."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="dslc lsp: %(message)s", force=True)
    # Their logs contain whole messages: documents, with secrets.
    for name in ("pygls", "asyncio", "concurrent.futures"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    server = build()
    # Loaded objects live until exit, and a response has many small objects: with the default thresholds, collections
    # take a third of the time of a large response.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        asyncio.run(_serve(server))
    except KeyboardInterrupt:
        return 130
    except asyncio.IncompleteReadError:  # the client disconnected within a message
        return 1
    return 0


async def _serve(server: Server) -> None:
    gone = threading.Event()
    reader = Input(sys.stdin.fileno())
    server.protocol.set_writer(Output(sys.stdout.fileno(), gone))
    await run_async(gone, reader, server.protocol, error_handler=server.report_server_error)
