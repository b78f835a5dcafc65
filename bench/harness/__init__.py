"""Shared by the benchmarks: command line and output, load generator, reference servers, data."""
