"""The command line: `tidewheel --help`."""
