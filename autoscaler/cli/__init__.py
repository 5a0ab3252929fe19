"""The command line: one module per subcommand, each turning arguments into calls of the layers below."""
