"""The workspace: callers' notebooks, the execution queue, permissions, the journal, artifacts, paths."""
