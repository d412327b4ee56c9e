"""The routes below ``{base_url}api/tk-ai``."""
