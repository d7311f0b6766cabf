"""The origin of an export: each weight's source tensors, and the rule that turns them into it."""
