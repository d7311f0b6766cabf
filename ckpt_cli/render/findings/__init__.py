"""Findings in the forms that services read: one module a form, each with `render(report) -> str`."""
