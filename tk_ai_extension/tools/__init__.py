"""The tools: one definition each, in toolsets; every face derives from the registry."""
