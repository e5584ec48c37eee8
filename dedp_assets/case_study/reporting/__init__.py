"""Code location of another team: reports over tables known by contract, without a shared import."""
