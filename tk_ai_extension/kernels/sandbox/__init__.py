"""Kernels that run without network, and see nothing of the machine but a project and what they run on."""
