"""Measurements that need a GPU. Each writes JSON with machine, versions and date; committed ones lie in results/."""
