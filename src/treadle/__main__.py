"""Let `python -m treadle` do what the console script does."""

import sys

from treadle.cli.main import main

sys.exit(main())
