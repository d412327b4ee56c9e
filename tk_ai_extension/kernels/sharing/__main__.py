"""The process that the kernelspec's argv starts."""

import sys

from tk_ai_extension.kernels.sharing.relay import main

if __name__ == "__main__":
    sys.exit(main())
