"""The ranks of the stages of turns within a transaction of the group commit.

On PostgreSQL every transaction of several daemons locks rows in this order: threads (all of its stages, see
`Stage.threads`), claimed turns, runs, blocks, storage of users, approvals, turns that end; each kind in the order of
the ids. Transactions of different daemons, whose turns and runs are different ones, wait for each other only at
threads, blocks and storage, and never in a circle. Only a claim of a turn whose lease has expired may meet the last
writes of its earlier attempt in the opposite order: PostgreSQL then ends one of the two transactions, and the group
commit repeats it.
"""

from __future__ import annotations

from typing import Final

SEND: Final = 1
CLAIM: Final = 2
ENTER: Final = 3
STEPS: Final = 4
MESSAGES: Final = 5
BLOCKS: Final = 6
KV: Final = 7
ASK: Final = 8
FINISH: Final = 9
"""After what a run writes last: it is usually stored with the end of the run, and is valid only before it."""
