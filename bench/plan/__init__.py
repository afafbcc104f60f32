"""Changes of plan: the experiments of Zhu, Rundensteiner and Heineman, and what ours adds."""
