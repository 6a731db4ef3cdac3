"""`python -m plaudit`: the `plaudit` command, for where scripts are not on the path."""

from plaudit.cli import main

raise SystemExit(main())
