"""Answers questions about checkpoints with TensorFlow; run by TensorFlow's Python, see conftest.py.

A line on standard input is `[module, function, arguments]`, the answer a line on standard
output, `{"value": ...}` or `{"error": traceback}`.  TensorFlow's own output goes to standard error.
"""

import importlib
import json
import os
import sys
import traceback


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        module, function, arguments = json.loads(line)
        try:
            found = getattr(importlib.import_module(f"oracle_{module}"), function)
            answer = {"value": found(**arguments)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
