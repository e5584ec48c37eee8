"""HTTP: services, providers and events, within bounds."""
