"""Kernels that run without network, and see only a project and the programs and libraries that they need."""
