"""The default toolset; each module holds one group of tools."""
