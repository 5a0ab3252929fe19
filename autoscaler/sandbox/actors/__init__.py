"""Simulated scheduler, kubelets and controllers, in one thread.

Each actor has `step(now)`: it looks at what changed since its last step and does what is due. Nothing here has a
thread, a clock or a random number of its own, so a run under a virtual clock repeats to the byte. `cluster.py` above
wires them.
"""
