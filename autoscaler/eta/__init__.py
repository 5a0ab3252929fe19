"""Estimates: how soon a pod would start, how many more pods the cluster could take."""
