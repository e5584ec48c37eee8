"""The case study: a blog's data, from source systems to reports.

The fourth of four houses: it stands on the library (`patterns`), the platform (`graph`, `components`) and the laptop.
``sources`` are seeded generators of its source systems, ``defs`` its tables (a module or a ``defs.yaml`` for each),
``reporting`` a code location of another team, ``workload`` the next steps of its applications. A project of somebody
else needs none of it.
"""
