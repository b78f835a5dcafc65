"""A received request and its parts: headers, payload, the fields that a program names, and its refusal."""
