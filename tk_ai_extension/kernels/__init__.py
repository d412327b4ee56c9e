"""Kernels: executors behind one interface, the lifecycle of kernels, and the output collector."""
