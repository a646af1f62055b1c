"""What a run tells about itself while it runs: phases, counts, messages."""
