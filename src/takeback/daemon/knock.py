"""What agents run for each event: `python -I -S knock.py AGENT`.

A program is compiled anew each time that it is started, and a module is not: so all that it does is in client.py.
"""

import posix
import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0])
    client = __import__("client")
    del sys.path[0]
    posix._exit(client.main())
