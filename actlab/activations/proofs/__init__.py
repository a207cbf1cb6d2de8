"""What is proven or computed about activations: exact formulas, certified bounds, moments, dead zones."""
