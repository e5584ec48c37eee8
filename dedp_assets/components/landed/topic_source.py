"""Record of a Kafka topic as the source of a landing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedp_assets.graph.resources.environments import is_variable, settings, variable
from dedp_assets.graph.systems import registry as registries
from dedp_assets.patterns.core.errors import ConfigError

if TYPE_CHECKING:
    from dedp_assets.graph.systems.kafka import Kafka
    from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry

__all__ = ["TopicSource"]

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A Kafka topic whose records are JSON objects, or Avro of a schema registry.

    Attributes:
        name: name of the topic.
        brokers: environment variable that holds ``host:port`` of a broker.
        registry: environment variable that holds the URL of the schema registry; without one, records with a header
            are JSON, whose schema is not looked at.

    Raises:
        ConfigError: for a name that no topic or no variable can have.
    """

    name: str
    brokers: str
    registry: str = ""

    def __post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.name):
            raise ConfigError(f"name must be that of a topic (letters, digits, '.', '_', '-'), not {self.name!r}")
        if not is_variable(self.brokers):
            sentence = f"an environment variable that holds host:port, like ORDERS_BROKERS, not {self.brokers!r}"
            raise ConfigError(f"brokers must be the name of {sentence}")
        if self.registry and not is_variable(self.registry):
            sentence = f"an environment variable that holds a URL, like ORDERS_REGISTRY, not {self.registry!r}"
            raise ConfigError(f"registry must be the name of {sentence}")

    def kafka(self) -> Kafka:
        """Return the topic of the brokers that the variable names now."""
        # The client of Kafka is in an extra of its own.
        from dedp_assets.graph.systems.kafka import Kafka  # noqa: PLC0415

        return Kafka(bootstrap=variable(self.brokers), topic=self.name, variable=self.brokers)

    def schemas(self) -> SchemaRegistry | None:
        """Return the topic's schema registry, at the URL in the environment variable.

        ``None`` for a topic without a schema registry.

        Raises:
            ConfigError: if the variable holds no URL.
        """
        return registries.at(settings(), variable(self.registry)) if self.registry else None
