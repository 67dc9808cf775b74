"""What an experiment is: its definition, its settings, and how its sample grows."""
