"""One file for each way to get batches of 224x224 random resized crops from a list of ``(url, label)``."""
