"""Cases of TensorFlow 2.15's own tests, and of Keras 2.15's, retold: what they claim, in other words.

A module is for one of TensorFlow's files and a function for one test of it, by its name
in snake_case; `table` says what becomes of those that have none.
"""
