"""Passes that are recorded, replayed and changed between the blocks.

Attention itself is read and changed by the taps of `workbench.engine`; here are the states before
and after each block, the outputs of heads and MLPs, and the head that reads them.
"""
