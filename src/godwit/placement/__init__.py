"""Where operators go: the placement problem, the searches over it, and the proofs of how good an answer is.

After APEROL (Banelas, Simitsis, Giatrakos, PVLDB 19(2)). Importing this package costs nothing: the searches
(and numba with them) load when `godwit.placement.search.base.search` first names one.
"""
