"""The program around the commands: start, options, help, completion, signals."""
