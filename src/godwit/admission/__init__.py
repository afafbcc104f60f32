"""Which queries fit, and what they share: admission after SQPR (Kalyvianaki et al., ICDE 2011).

Start at `admission.Admission`. `incremental.py` is the planner it uses, `exact.py` the model that proves refusals and
optima, `literal.py` the paper's model as printed, `check.py` the independent judge of every state.
"""

from godwit.admission.admission import Admission
from godwit.admission.answers import Admitted, AdmittedPlan, OperatorMoved, Placement, Refused, Replanned, Transfer
from godwit.admission.model import BaseStream, Host, HostLink
from godwit.admission.rates import Base, JoinSpec, Predicate, RateModel, RateQuery, Unary
from godwit.admission.refusal import Addition

__all__ = [
    "Addition",
    "Admission",
    "Admitted",
    "AdmittedPlan",
    "Base",
    "BaseStream",
    "Host",
    "HostLink",
    "JoinSpec",
    "OperatorMoved",
    "Placement",
    "Predicate",
    "RateModel",
    "RateQuery",
    "Refused",
    "Replanned",
    "Transfer",
    "Unary",
]
