"""Routes to actors of other nodes, names of actors, and answers not fetched from other nodes yet."""
