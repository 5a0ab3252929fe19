"""The pass: observes the cluster and the cloud, decides, acts, and keeps its memory for the next pass."""
