"""Cost (the guide's chapter 11): cheaper storage, sampling and compute."""
