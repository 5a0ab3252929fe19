"""Protobuf by tables of field numbers, for Kubernetes' own messages and for the gRPC protocols around them."""
