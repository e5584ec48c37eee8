"""Schema registry over HTTP: Confluent's API as far as Confluent's Python client uses the API."""
