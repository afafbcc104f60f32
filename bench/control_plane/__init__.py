"""What one topology change costs the control plane, without Spark, from a hundred sites to a hundred thousand."""
