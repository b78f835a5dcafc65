"""HTTP layer of both listeners, on top of aiohttp's server: limits, fairness by address, a body budget, errors.

A handler takes a `Request` and returns a `Response`. Input that is not plainly one request with one length is
refused in the form of every other refusal, and never reaches a handler.
"""
