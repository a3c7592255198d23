"""Objects of a node: values, references, copies elsewhere, waits, lineage and reconstruction."""
