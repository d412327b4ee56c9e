"""The toolset `introspection`: which modules a notebook's kernel can import."""
