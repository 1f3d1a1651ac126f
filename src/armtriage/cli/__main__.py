"""Run the command line by ``python -m armtriage.cli``."""

from armtriage.cli import main

if __name__ == "__main__":
    main()
