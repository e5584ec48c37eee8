"""The laptop: servers of one machine in place of a company's.

The third of four houses: it stands on the platform (`graph`) and the library (`patterns`), and knows no table. Its face
is ``processes.up``, which supervises all servers of a home: those in ``servers`` (Spark engine and cluster, PostgreSQL,
Kafka, schema registry, S3), Dagster's own (``orchestration``) and the ``status_page``. Somebody whose company has these
servers ignores it.
"""
