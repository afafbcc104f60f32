"""What a plan costs: tables and models that fill them."""
