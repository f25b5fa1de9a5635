"""The program that agents run for each event: `python -I -S knock.py AGENT`.

Python compiles a program at each start, but not a module: so all the code is in client.py.
"""

import posix
import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0])
    client = __import__("client")
    del sys.path[0]
    posix._exit(client.main())
