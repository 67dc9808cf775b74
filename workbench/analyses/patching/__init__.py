"""Which states, heads and MLPs carry what decides between two texts?"""
