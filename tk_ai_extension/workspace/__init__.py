"""The workspace: who works in which notebook, the queue, permissions, the journal, artifacts, paths."""
