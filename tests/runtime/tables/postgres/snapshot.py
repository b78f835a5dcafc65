"""What must not change when a user runs statements: everything outside of the user's own schema."""

from __future__ import annotations

from typing import Any, Final

_PARTS: Final = (
    "SELECT string_agg(a::text, '|' ORDER BY a.oid) FROM pg_authid a",
    "SELECT string_agg(m::text, '|' ORDER BY m::text) FROM pg_auth_members m",
    "SELECT string_agg(s::text, '|' ORDER BY s::text) FROM pg_db_role_setting s",
    "SELECT string_agg(datname || datdba || coalesce(datacl::text, ''), '|' ORDER BY datname) FROM pg_database"
    " WHERE datname = current_database()",
    "SELECT string_agg(n::text, '|' ORDER BY n.oid) FROM pg_namespace n",
    "SELECT string_agg(c.oid || relname || relowner || coalesce(relacl::text, ''), '|' ORDER BY c.oid) FROM pg_class c"
    " WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname IN ('{own}', 'pg_toast'))",
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
    "SELECT string_agg(k::text, '|' ORDER BY k::text) FROM {keys} k",
)


async def snapshot(server: Any, own: str, other: str) -> list[str]:
    """Return the state of the server without the schema `own`, as a superuser sees it."""
    keys = "symbiont_keys.keys"
    query = "SELECT md5(coalesce(({}), ''))"
    parts = (part.replace("{own}", own).replace("{other}", f'"{other}"').replace("{keys}", keys) for part in _PARTS)
    return [f"{row[0]} of {part}" for part in parts for row in await server.fetch(query.format(part))]
