"""What every attention head does: roles with baselines, nulls and intervals, from one pass."""
