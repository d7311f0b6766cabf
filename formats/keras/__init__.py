"""Keras' layers, optimizers, configurations and variable layouts, as tables.

    layers, optimizers      tables: what each class has, and what differs between generations
    config                  a configuration taken apart, and the shapes it asks for
    facts                   what files say of themselves beside their tensors
    model                   a model as units with variables
    layouts, match          where its variables go in each layout, and how stored ones are found

Nothing here knows HDF5 or TensorFlow's files, so that their readers may ask it.
"""
