"""The tools: one definition each, in toolsets; every interface derives from the registry."""
