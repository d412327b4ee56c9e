"""Conformance suites and fault injectors, for this package's tests and for authors of plug-ins."""
