"""Figures: of convergence and fields (plotting), of charges on a body (bem), of a multigrid solve (multigrid).

The functions take numbers and do not depend on the modules that compute them.
"""
