"""The base of all packages: experiments, errors, files, statistics. Imports no other package."""
