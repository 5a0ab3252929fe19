"""Simulated scheduler, kubelets and controllers, in one thread.

Each actor has `step(now)`: it reads the changes since its last step, and does what is due. Actors have no threads,
clocks or random numbers of their own, so a run under a virtual clock repeats to the byte. `cluster.py` above connects
them.
"""
