"""Schema registry over HTTP: the part of Confluent's API that Confluent's own Python client uses."""
