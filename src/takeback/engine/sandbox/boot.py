"""The program that starts a command inside a fence: `python -I -S boot.py FENCE LOG -- COMMAND…`

It finds its modules without loading what `import takeback` loads, which takes longer than all the rest.
"""

import sys


def main() -> int:
    """Start the command that is named in the arguments. Return its exit code."""
    if "takeback" not in sys.modules:
        package = type(sys)("takeback")
        package.__path__ = [__file__.rpartition("/engine/")[0]]
        sys.modules["takeback"] = package
    from takeback.engine.sandbox.start import main as start

    return start()


if __name__ == "__main__":
    import posix

    posix._exit(main())
