"""A daemon that is none: it listens where the daemon would, and allows everything. `python fake.py HOME`."""

import os
import socket
import sys
from pathlib import Path

if __name__ == "__main__":
    os.chdir(sys.argv[1])
    Path("daemon.sock").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("daemon.sock")
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(65536):
                    pass
                connection.sendall(b"0 0 0\n")
                Path("asked").touch()
