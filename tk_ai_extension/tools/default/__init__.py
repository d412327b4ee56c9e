"""The default toolset, a module for each family of tools."""
