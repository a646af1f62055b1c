"""What is measured, beside the peers it is measured against. `python -m bench` prints the table."""
