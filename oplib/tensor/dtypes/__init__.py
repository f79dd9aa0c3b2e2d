"""Dtypes: their names, the rules for allowed and default dtypes, promotion and limits."""
