"""Tools for tests of programs that use godwit."""
