"""`python -m runtime` is `symbi`."""

from runtime.cli import main

main()
