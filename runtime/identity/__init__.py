"""Who asks: users, their bearer tokens, and the caller that operations are given."""

from runtime.identity.caller import OWNER_CALLER, SCOPES, Caller, Forbidden, Scope
from runtime.identity.tokens import TokenRefused, Tokens

__all__ = ["OWNER_CALLER", "SCOPES", "Caller", "Forbidden", "Scope", "TokenRefused", "Tokens"]
