"""Black-box proof that what an agent did to the world is taken back, and nothing else."""
