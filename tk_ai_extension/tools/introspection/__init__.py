"""The toolset `introspection`: the modules that a notebook's kernel can import."""
