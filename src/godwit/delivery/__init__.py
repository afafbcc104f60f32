"""Where results leave."""
