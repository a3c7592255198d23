"""Predictions of a recorded run on other machines, in the simulator, with the production schedulers."""
