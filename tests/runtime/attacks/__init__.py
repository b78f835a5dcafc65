"""Attacks that succeeded against other receivers, tried on a real daemon. Where each kind is tested:

- open because of a missing, empty, blank or unresolved secret: `test_secrets`
- state before verification: `test_before_verification`
- the algorithm named by the request, an old version (Stripe's `v0`), an HMAC keyed by a public key:
  `test_algorithms`, and for every sender in `tests.contracts.test_providers`
- timestamps that only some parsers accept (full-width digits, floats, 13 digits): `test_replays`
- `v1=junk` added or reordered to pass as a new request: `test_replays`
- percent-encoded, doubled and dotted paths: `test_paths`
- two framings in one request, bodies that inflate: `test_framing`, and `tests.runtime.http` for the public listener
- spoofed X-Forwarded-For: `test_tokens`, and `tests.runtime.webhooks.receiving.test_addresses`
- line ends and escape sequences in the log: `test_escapes`
- challenges echoed as a page: `test_challenges`
- fuzz of every route: `test_fuzz`; parameters of every operation: `test_injection`
- disks that fail or are full: `test_disk`, `tests.stories.test_storage`; a killed process: `test_kill` there
"""
