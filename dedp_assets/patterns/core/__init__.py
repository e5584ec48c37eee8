"""What every pattern stands on: errors, results, the ledger, and the only writer of Delta tables."""
