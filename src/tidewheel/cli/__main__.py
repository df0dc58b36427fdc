"""Runs the command line, `python -m tidewheel.cli --help`."""

from tidewheel.cli import run

if __name__ == "__main__":
    run()
