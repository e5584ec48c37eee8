"""Systems beside the lake, as Dagster resources: databases, brokers, registry, HTTP services, secrets."""
