"""Measurements that need a GPU. Each writes JSON with machine, versions and date; committed ones lie in results/.

Those in chip/ ask what the hardware does; the others run kernels of ours.
"""
