"""Kernels that live behind a gateway (``jupyter lab --gateway-url …``)."""
