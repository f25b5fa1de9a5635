"""`python -m takeback`."""

from takeback.cli import main

if __name__ == "__main__":
    main()
