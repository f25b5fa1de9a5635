"""One adapter for each kind of thing that can be changed; none knows another."""
