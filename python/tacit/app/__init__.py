"""Applications: boundary elements, multigrid on grids, tomography, sparse networks, Poisson in the unit cube.

`tacit.bem` is `tacit.app.bem`, and so on; the package imports them at the first access.
"""
