"""Budgets: what agents and users may use in a day, and how many runs they may begin in an hour."""
