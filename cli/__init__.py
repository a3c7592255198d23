"""The command line: installed as zray.cli.  Each command parses, calls, prints."""
