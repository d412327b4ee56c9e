"""A user's server: kernels without activity for half an hour are ended."""

c = get_config()  # noqa: F821 - Jupyter Server defines it

c.MappingKernelManager.cull_idle_timeout = 1_800
c.MappingKernelManager.cull_interval = 300
