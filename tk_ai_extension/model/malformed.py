"""What reading JSON of others raises where it is not of the form that the code expects."""

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Catch these around the reading alone, and raise a typed error: anywhere else they are defects of ours."""
