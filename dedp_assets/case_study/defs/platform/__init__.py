"""Platform: maintenance and checks of all tables, dead letters, alerts, deliveries to partners."""
