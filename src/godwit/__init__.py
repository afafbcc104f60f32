"""godwit keeps continuous SQL queries running on Spark while the ground under them moves."""
