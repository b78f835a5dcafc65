"""The language server: `serve` speaks the protocol on standard input and output until the client ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.metadata import version
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
    """pygls' protocol. A request that cannot be understood is answered, too."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message out of its JSON object."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if "method" in data and isinstance(data.get("id"), str | int):
                self._send_response(data["id"], error=JsonRpcInvalidParams().to_response_error())
            raise


class Server(LanguageServer):
    """pygls' server, with no talk of its own faults in the author's face."""

    def __init__(self) -> None:
        super().__init__("dslc", version("symbiont"), protocol_cls=Protocol)
        # The session keeps the documents: a second copy is of no use, and pygls ends lines at U+2028 and its like.
        for method in _OWN_DOCUMENTS:
            self.protocol.fm.builtin_features.pop(method, None)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Into the log, without the message: it may hold a part of a document, and a secret in it.

        What an author asked for and was refused is no failure: the answer says why.
        """
        if not (isinstance(error, JsonRpcException) and error.code == _REQUEST_FAILED):
            log_failure("the protocol", error)


def log_failure(what: str, error: BaseException) -> None:
    """What failed and where in our code. Never the error's own text, for it may hold a part of a document."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    _LOG.error("%s failed: %s at %s", what, type(error).__name__, where or "the beginning")


def build() -> Server:
    """A server with all its features."""
    server = Server()
    session = LanguageSession(server, Vocabulary(Catalog.installed()), log_failure)
    features = Features(session)
    for method, handle in session.handlers().items():
        server.feature(method)(_guarded(method, handle))
    for method, (name, options) in FEATURES.items():
        server.feature(method, options)(_guarded(method, getattr(features, name)))
    return server


def _guarded(method: str, handle: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A handler that answers nothing when it fails, and goes on living."""

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
    """Serve until the client says so or goes away. Returns the exit code: 0 after an orderly end."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="dslc lsp: %(message)s", force=True)
    # Their logs show messages whole: documents, and secrets in them.
    for name in ("pygls", "asyncio", "concurrent.futures"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    server = build()
    # What is loaded by now stays, and answers are many small objects: the usual thresholds would cost a third of a
    # large answer.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        asyncio.run(_serve(server))
    except KeyboardInterrupt:
        return 130
    except asyncio.IncompleteReadError:  # the client went away within a message
        return 1
    return 0


async def _serve(server: Server) -> None:
    gone = threading.Event()
    reader = Input(sys.stdin.fileno())
    server.protocol.set_writer(Output(sys.stdout.fileno(), gone))
    await run_async(gone, reader, server.protocol, error_handler=server.report_server_error)
