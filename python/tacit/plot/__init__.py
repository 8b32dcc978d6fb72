"""Figures: of convergence and fields (plotting), of charges on a body (bem), of a multigrid solve (multigrid).

They are given numbers and know nothing of who computed them.
"""
