"""Cases as TensorFlow passes them."""

import cases
import tensorflow as tf


def run(name, directory):
    cases.run(name, tf, directory)
