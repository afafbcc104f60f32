"""The command line: one file a command. Results on stdout, everything else on stderr."""
