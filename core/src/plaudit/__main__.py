"""`python -m plaudit` is the `plaudit` command."""

from plaudit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
