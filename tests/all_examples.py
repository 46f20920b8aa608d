"""Runs examples one after the other in this job, as their command lines say: the path of each, its arguments, and --.

Together they start once, which is most of the time of a small one.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

if __name__ == "__main__":
    words = sys.argv[1:]
    while words:
        end = words.index("--")
        path, arguments, words = words[0], words[1:end], words[end + 1 :]
        sys.argv = [path, *arguments]
        sys.path.insert(0, str(Path(path).parent))
        print(f"== {Path(path).stem}")
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as error:
            if error.code:
                sys.exit(f"{path}: {error.code}")
        except Exception:
            traceback.print_exc()
            raise
