"""Helpers for the tests: threads that cannot hang, child processes, measures, a naive graph."""
