"""Mixtures of experts: statistics of the routers, and a watch that records them."""
