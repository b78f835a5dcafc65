"""Budgets: tokens and costs of agents and users per day, and runs per hour."""
