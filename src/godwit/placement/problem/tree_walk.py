"""All paths of a tree, walked from every site: distances are summed link by link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels.cost import Index, Matrix, Vector, kernel


@kernel
def walk(
    near_at: Index, near: Index, latency: Vector, distance: Matrix, hops: Matrix, before: NDArray[np.int32]
) -> None:
    """Breadth first from each site over its neighbours near[near_at[s]:near_at[s + 1]]."""
    n = near_at.shape[0] - 1
    queue = np.empty(n, dtype=np.int64)
    for start in range(n):
        queue[0] = start
        found, at = 1, 0
        distance[start, start], hops[start, start], before[start, start] = 0.0, 0.0, -1
        while at < found:
            u = queue[at]
            at += 1
            for j in range(near_at[u], near_at[u + 1]):
                v = near[j]
                if v != before[start, u]:
                    distance[start, v] = distance[start, u] + latency[j]
                    hops[start, v] = hops[start, u] + 1.0
                    before[start, v] = u
                    queue[found] = v
                    found += 1
