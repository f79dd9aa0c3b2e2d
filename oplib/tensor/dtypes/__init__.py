"""The dtypes: torch's names, which dtype is allowed where, promotion and limits."""
