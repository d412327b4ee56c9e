"""Kernels: executors behind one interface, their life cycle, and the collector of outputs."""
