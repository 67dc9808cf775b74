"""What surrounds the pages: the bar, Home, the tour, jobs, and what is prepared ahead."""
