"""What wakes the graph. Each sensor looks, lets a pattern decide, and requests runs; none starts a JVM."""
