"""Records of an experiment."""
