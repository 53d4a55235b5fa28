"""`bridle`, or `python -m bridle`, is the command line."""

import sys


def main() -> None:
    """Import all commands, which takes a moment, and run one."""
    try:
        from bridle.cli import app

        app(prog_name="bridle")
    except KeyboardInterrupt:  # outside of any command
        sys.stderr.write("bridle: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
