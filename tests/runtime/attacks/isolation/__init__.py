"""The matrix of isolation: every route, tool and resource, called by another user than the one whose data it names, and
with each scope.

A new row of a table is in the matrix by itself. It fails there if it has a parameter that `parameters` does not know:
that table says which parameters name something of a user.
"""
