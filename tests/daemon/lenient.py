"""What agents run for each event, but it believes whatever listens: for daemons that a test starts in its own way.

`python -I -S lenient.py FOLDER AGENT`, with the folder of client.py.
"""

import posix
import sys

if __name__ == "__main__":
    folder = sys.argv.pop(1)
    sys.path.insert(0, folder)
    client = __import__("client")
    del sys.path[0]
    vars(client)["is_daemon"] = lambda _pid: True
    posix._exit(client.main())
