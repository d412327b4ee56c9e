"""The toolset `omp`: cells by index in `notebook`, and code in session kernels by `python`."""
