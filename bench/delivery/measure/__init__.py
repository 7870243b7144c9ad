"""What bench/delivery/run is made of."""
