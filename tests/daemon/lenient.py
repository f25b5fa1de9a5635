"""What agents run for each event, but it believes whatever listens: for daemons that a test starts in its own way.

`python -I -S lenient.py FOLDER AGENT`, with the folder of door.py.
"""

import posix
import sys

if __name__ == "__main__":
    folder = sys.argv.pop(1)
    sys.path.insert(0, folder)
    door = __import__("door")
    del sys.path[0]
    vars(door)["is_daemon"] = lambda _pid: True
    posix._exit(door.main())
