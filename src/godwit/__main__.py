"""`python -m godwit`."""

from godwit.cli.main import run

if __name__ == "__main__":
    run()
