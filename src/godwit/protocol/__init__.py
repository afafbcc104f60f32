"""What a region decides, as pure state machines. The runtime and the simulator run the same code."""
