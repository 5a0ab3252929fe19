"""Why a pod waits, a node stays or a node group was left out, and what would change that."""
