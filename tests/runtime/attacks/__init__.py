"""What has gone wrong in other receivers, tried on a real daemon. Where each kind is:

- open for want of a secret (missing, empty, blank, unresolved): `test_secrets`
- state before verification: `test_before_verification`
- the algorithm named by the request, a version that is old (Stripe's `v0`), an HMAC keyed by a public key:
  `test_algorithms`, and for every sender in `tests.contracts.test_providers`
- timestamps as only some parsers read them (full-width digits, floats, 13 digits): `test_replays`
- `v1=junk` added or put in another order, to pass as new: `test_replays`
- percent-encoded, doubled and dotted paths: `test_paths`
- two framings in one request, bodies that inflate: `test_framing`, and `tests.runtime.http` for the public listener
- spoofed X-Forwarded-For: `test_tokens`, and `tests.runtime.webhooks.receiving.test_client_address`
- line ends and escapes on their way into the log: `test_escapes`
- challenges given back as a page: `test_challenges`
- fuzz of every route: `test_fuzz`; parameters of every operation: `test_injection`
- disks that fail or are full: `test_disk`, `tests.stories.test_storage`; a killed process: `test_kill` there
"""
