"""Routes to actors of other nodes, their names, and answers that still lie there."""
