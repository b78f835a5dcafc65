"""Finds and replaces secrets: rows of `Pattern`, first the `token_formats` that name a service, last the
`named_secrets`."""
