"""Planning: versions, alignment, communication, groups, temporaries and the memo key of a program."""

from .plan import Exchange, Group, Partial, Plan, Reduction, Transfer, plan

__all__ = ["Exchange", "Group", "Partial", "Plan", "Reduction", "Transfer", "plan"]
