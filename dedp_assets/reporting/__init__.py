"""Code location of another team: reports over tables that it knows by contract, without an import of their code."""
