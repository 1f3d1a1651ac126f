"""``python -m armtriage`` is the command line."""

from armtriage.cli import main

if __name__ == "__main__":
    main()
