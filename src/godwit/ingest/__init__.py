"""Where rows enter."""
