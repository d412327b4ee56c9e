"""``python -m tk_ai_extension.cli``: the same as ``nb``."""

import sys

from tk_ai_extension.cli.main import main

sys.exit(main())
