"""`bridle`, or `python -m bridle`, is the command line."""

import gc

from bridle.interrupts import stop_at_once


def main() -> None:
    """Import a command, which takes a moment, and run it."""
    stop_at_once()
    gc.disable()  # until the command is imported: modules and classes are no garbage, and looking for it takes long
    try:
        from bridle.cli import app
    except ImportError as problem:
        from bridle.installation import explain

        explain(problem)
        raise
    app(prog_name="bridle")


if __name__ == "__main__":
    main()
