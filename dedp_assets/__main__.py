"""The command line as a module: ``python -m dedp_assets``."""

import sys

from dedp_assets.cli import main

sys.exit(main())
