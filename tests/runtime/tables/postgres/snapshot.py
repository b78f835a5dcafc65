"""What must not change when a user runs statements: everything outside of the user's own schema."""

from __future__ import annotations

from typing import Any, Final

_PARTS: Final = (
    "SELECT string_agg(a::text, '|' ORDER BY a.oid) FROM pg_authid a",
    "SELECT string_agg(m::text, '|' ORDER BY m::text) FROM pg_auth_members m",
    "SELECT string_agg(s::text, '|' ORDER BY s::text) FROM pg_db_role_setting s",
    "SELECT datdba || coalesce(datacl::text, '') FROM pg_database WHERE datname = current_database()",
    "SELECT string_agg(n::text, '|' ORDER BY n.oid) FROM pg_namespace n",
    "SELECT string_agg(concat(c.oid, relname, relowner, relacl), '|' ORDER BY c.oid) FROM pg_class c {elsewhere}",
    "SELECT count(*) || '/' || sum(oid::bigint) FROM pg_proc",
    "SELECT count(*) || '/' || sum(oid::bigint) FROM pg_operator",
    "SELECT count(*) || '' FROM pg_largeobject_metadata",
    "SELECT count(*) || '' FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT string_agg(extname, '|') FROM pg_extension",
    "SELECT count(*) || '' FROM pg_locks WHERE locktype = 'advisory'",
    "SELECT count(*) || '' FROM pg_prepared_xacts",
    "SELECT string_agg(n::text, '|' ORDER BY id) FROM {other}.notes n",
    "SELECT string_agg(u::text, '|' ORDER BY user_id) FROM public.user_storage u WHERE name <> '{own}'",
    "SELECT string_agg(u::text, '|' ORDER BY u::text) FROM public.users u",
    "SELECT string_agg(m::text, '|' ORDER BY m::text) FROM public.meta m",
    "SELECT string_agg(k::text, '|' ORDER BY k::text) FROM symbiont_keys.keys k",
)
_ELSEWHERE: Final = "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname NOT IN ('{own}', 'pg_toast')"


async def snapshot(server: Any, own: str, other: str) -> list[str]:
    """Return the state of the server without the schema `own`, as a superuser sees it."""
    parts = [part.replace("{elsewhere}", _ELSEWHERE).replace("{own}", own).replace("{other}", other) for part in _PARTS]
    query = ", ".join(f"md5(coalesce(({part}), ''))" for part in parts)
    return [f"{found} of {part}" for found, part in zip(await server.fetchrow(f"SELECT {query}"), parts, strict=True)]
