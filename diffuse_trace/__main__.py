"""``python -m diffuse_trace`` is ``diffuse``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
