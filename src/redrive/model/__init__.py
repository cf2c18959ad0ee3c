"""What things are: states, values and the transitions between them."""
