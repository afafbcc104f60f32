"""Every search by its name. Apart from the searches, so that a command's help can name them without loading them."""

from __future__ import annotations

#: name -> module of this package that defines `search`
SEARCHES: dict[str, str] = {
    "esq": "esq",
    "esc": "esc",
    "rand-esc": "rand_esc",
    "heuristic": "heuristic",
    "greedy": "greedy",
    "rss": "rss",
    "greedy+rss": "hybrid",
    "heuristic+rss": "hybrid",
    "evolutionary": "evolutionary",
    "dag-star": "dag_star",
    "spring-relax": "spring_relax",
    "governor": "governor",
    "optimum": "optimum",
    "auto": "auto",
}
