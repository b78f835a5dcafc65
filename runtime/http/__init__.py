"""What both listeners share on top of aiohttp's server: limits, fairness by address, a budget of bodies, problems.

A handler takes a `Request` and gives a `Response`. Whatever is not plainly one request with one length is refused in
the form of every other refusal, and never reaches a handler.
"""

from runtime.http.connection import Shared, parses_strictly
from runtime.http.limits import Limits
from runtime.http.problem import Problem
from runtime.http.request import Request
from runtime.http.response import Response, failure
from runtime.http.server import Listener, Server

__all__ = ["Limits", "Listener", "Problem", "Request", "Response", "Server", "Shared", "failure", "parses_strictly"]
