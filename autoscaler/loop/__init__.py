"""The pass: look at the cluster and the cloud, decide, act, remember."""
