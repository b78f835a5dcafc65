"""SQL tables of users in PostgreSQL: a schema and a login role for each user.

A statement passes two boundaries. `statement` judges its parse tree: what is not on the lists of `allowlist` is
refused, and `value_bounds` bounds what functions may produce. It then runs on a connection of the user's own role
(`connections`, `roles`), which has rights on nothing but the user's schema.
"""
