"""Concurrency suite: actors at once in one notebook, a recorded history, and a checker of it.

`rounds.run_rounds` drives it. Each round, agents call tools and a person or another program edits the
same notebook, all at once. `linearizability.linearize` then looks for a serial order, within real
time, that explains every answer, every row of the journal and the notebook at the end.
"""
