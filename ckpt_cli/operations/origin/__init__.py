"""What an export was made of: each weight's source tensors, and the rule that turns one into the other."""
