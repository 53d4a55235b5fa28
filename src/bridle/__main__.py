"""`python -m bridle` is the command line."""

from bridle.cli import app

app(prog_name="bridle")
