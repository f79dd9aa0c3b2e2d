"""Pure functions of arrays, compiled once and differentiable to every order."""
