"""Kernels behind a gateway (``jupyter lab --gateway-url …``)."""
