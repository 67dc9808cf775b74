"""Processes of this machine: locks, queues of devices, limits, and the starter that forks them.

They know nothing of what a run computes.
"""
