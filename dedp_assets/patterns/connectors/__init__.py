"""Systems that data comes from: files, topics, databases, events, providers."""
