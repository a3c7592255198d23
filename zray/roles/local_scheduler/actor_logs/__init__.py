"""Logs of actors that recover: call log, backup copies on other nodes, replay and output commit."""
