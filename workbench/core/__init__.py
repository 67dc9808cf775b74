"""What everything stands on: experiments, errors, files, statistics. Imports no other room."""
