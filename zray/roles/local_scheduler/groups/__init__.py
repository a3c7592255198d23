"""Placement groups: bundles on the node, and groups that the node keeps."""
