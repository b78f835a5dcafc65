"""What both listeners share on top of aiohttp's server: limits, fairness by address, a budget of bodies, problems.

A handler takes a `Request` and gives a `Response`. Whatever is not plainly one request with one length is refused in
the form of every other refusal, and never reaches a handler.
"""
