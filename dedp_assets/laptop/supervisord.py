"""supervisord with an orderly shutdown once the parent process has ended, even a killed parent."""

import ctypes
import os
import signal
import sys

from supervisor.supervisord import main

_ON_PARENTS_DEATH = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)
    main()
