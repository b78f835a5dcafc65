"""The public listener's own HTTP/1.1 (RFC 9112): strict about what comes in, sparing about what it costs.

A handler takes a `Request` and gives a `Response`. Whatever is not plainly one request with one length is refused in
the form of every other refusal, and never reaches a handler.
"""

from runtime.http.limits import Limits
from runtime.http.problem import Problem
from runtime.http.request import Request
from runtime.http.response import Response, failure
from runtime.http.server import Server

__all__ = ["Limits", "Problem", "Request", "Response", "Server", "failure"]
