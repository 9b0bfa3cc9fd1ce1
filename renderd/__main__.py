"""`python -m renderd`."""

import sys

from renderd.cli import main

sys.exit(main())
