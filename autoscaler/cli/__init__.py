"""The command line. Each subcommand has a module that turns arguments into calls of the layers below."""
