"""tensorflow/python/checkpoint/checkpoint_test.py."""

import copy
import os
import pathlib
import sys
import weakref

from .support import close, keys_of, raises, told


def more_complex_saveable_returned(tf, directory):
    """An object's gathered values are saved under the name that it gives, and restored from it."""
    saved, mirrored = tf.Variable(42.0), tf.Variable(15.0)

    class Mirrored(tf.Module):
        def _serialize_to_tensors(self):
            return {"VARIABLE_VALUE": saved}

        def _restore_from_tensors(self, tensors):
            saved.assign(tensors["VARIABLE_VALUE"])
            mirrored.assign(tensors["VARIABLE_VALUE"])

    checkpoint = tf.train.Checkpoint(v=Mirrored())
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    saved.assign(43.0)
    mirrored.assign(44.0)
    checkpoint.restore(path).assert_consumed()
    assert (float(saved), float(mirrored)) == (42.0, 42.0)


def assert_consumed_no_checkpoint(tf, directory):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    status = checkpoint.restore(path)
    del checkpoint
    status.assert_consumed()


def deep_copy_checkpoint(tf, directory):
    v = tf.Variable(1.0)
    original = tf.train.Checkpoint(v=v)
    copied = copy.deepcopy(original)
    copied.v.assign(2.0)
    assert float(v) == 1.0
    path = copied.save(os.path.join(directory, "ckpt"))
    original.restore(path).assert_consumed()
    assert float(v) == 2.0


def passing_checkpoint_options(tf, directory):
    options = tf.train.CheckpointOptions(experimental_io_device="/job:localhost/device:CPU:0")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
    path = checkpoint.save(os.path.join(directory, "ckpt"), options=options)
    status = checkpoint.restore(path, options=options)
    del checkpoint
    status.assert_consumed()


def custom_numbering(tf, directory):
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step)
    for number in range(5):
        path = checkpoint.write(os.path.join(directory, f"ckpt-{int(step)}"))
        assert path.endswith(f"-{2 * number}")
        step.assign_add(2)


def partial_restore_warning_attribute(tf, directory):
    path = tf.train.Checkpoint(v1=tf.Variable(2.0), v2=tf.Variable(3.0)).save(os.path.join(directory, "ckpt"))
    partial = tf.train.Checkpoint(v1=tf.Module(), v2=tf.Variable(0.0))
    weak = weakref.ref(partial)
    with told() as messages:
        partial.restore(path)
        assert float(partial.v2) == 3.0
        del partial
        assert weak() is None
    text = "\n".join(messages)
    assert "(root).v1" in text
    assert "(root).v2" not in text
    assert "expect_partial()" in text


def attribute_exception(tf, directory):
    path = tf.train.Checkpoint(v1=tf.Variable(2.0), v2=tf.Variable(3.0)).save(os.path.join(directory, "ckpt"))
    status = tf.train.Checkpoint(v1=tf.Module(), v2=tf.Variable(0.0)).restore(path)
    text = raises(AssertionError, status.assert_consumed)
    assert text.startswith("Unused attributes")
    assert "(root).v1" in text
    status.expect_partial()


def silence_partial_warning(tf, directory):
    path = tf.train.Checkpoint(v1=tf.Variable(2.0), v2=tf.Variable(3.0)).save(os.path.join(directory, "ckpt"))
    partial = tf.train.Checkpoint(v1=tf.Variable(0.0))
    weak, weak_v1 = weakref.ref(partial), weakref.ref(partial.v1)
    partial.restore(path).expect_partial()
    assert float(partial.v1) == 2.0
    with told() as messages:
        del partial
        assert weak() is None
        assert weak_v1() is None
    assert messages == []


def variable_name_escaping(tf, directory):
    names = {
        "a/b/c": "a.Sb.Sc",
        "b": "b",
        "c/": "c.S",
        "d/.S": "d.S..S",
        "d/.ATTRIBUTES/f": "d.S..ATTRIBUTES.Sf",
    }
    for name, escaped in names.items():
        root = tf.train.Checkpoint()
        setattr(root, name, tf.Variable([[1.0, 2.0]], dtype=tf.float64))
        path = root.write(os.path.join(directory, "ckpt"))
        assert keys_of(tf, path) == [f"{escaped}/.ATTRIBUTES/VARIABLE_VALUE"]


def numbered_path(tf, directory):
    root = tf.train.Checkpoint(leaf=tf.train.Checkpoint(v=tf.Variable(0.0)))
    path = root.write(os.path.join(directory, "ckpt"))
    assert keys_of(tf, path) == ["leaf/v/.ATTRIBUTES/VARIABLE_VALUE"]


def local_name_validation(tf, directory):
    """Dots are escaped, so an edge cannot be taken for what is reserved."""
    root = tf.train.Checkpoint()
    setattr(root, ".ATTRIBUTES", tf.train.Checkpoint(a=tf.Variable(0.0)))
    path = root.write(os.path.join(directory, "ckpt"))
    assert keys_of(tf, path) == ["..ATTRIBUTES/a/.ATTRIBUTES/VARIABLE_VALUE"]


def late_dependency_tracking(tf, directory):
    original = tf.train.Checkpoint(dep=tf.train.Checkpoint(var=tf.Variable(123.0)))
    path = original.save(os.path.join(directory, "ckpt"))
    target = tf.train.Checkpoint()
    status = target.restore(path)
    status.assert_existing_objects_matched()
    raises(AssertionError, status.assert_consumed)
    target.dep = tf.train.Checkpoint()
    target.dep.var = tf.Variable(0.0)
    status.assert_consumed()
    status.assert_existing_objects_matched().run_restore_ops()
    assert float(target.dep.var) == 123.0


def dep_after_var(tf, directory):
    path = tf.train.Checkpoint(dep=tf.train.Checkpoint(var=tf.Variable(-14.0))).save(
        os.path.join(directory, "ckpt")
    )
    target = tf.train.Checkpoint()
    status = target.restore(path)
    target.dep = tf.train.Checkpoint(var=tf.Variable(0.0))
    status.assert_consumed()
    assert float(target.dep.var) == -14.0


def overlapping_restores(tf, directory):
    """The later restore gives the value, regardless of the order in which objects appear."""
    saved = tf.train.Checkpoint(dep=tf.train.Checkpoint(var=tf.Variable(12.0)))
    first = saved.save(os.path.join(directory, "first"))
    saved.dep.var.assign(13.0)
    second = saved.save(os.path.join(directory, "second"))
    for first_goes_first, after_both in ((True, 13.0), (False, 12.0)):
        one, two = tf.train.Checkpoint(), tf.train.Checkpoint()
        restores = [lambda root=one: root.restore(first), lambda root=two: root.restore(second)]
        statuses = [restore() for restore in (restores if first_goes_first else restores[::-1])]
        dep = tf.train.Checkpoint(var=tf.Variable(0.0))
        one.dep = dep
        assert float(dep.var) == 12.0
        two.dep = dep
        for status in statuses:
            status.assert_consumed()
        assert float(dep.var) == after_both


def ambiguous_load(tf, directory):
    """One object of the checkpoint cannot become two."""
    shared = tf.train.Checkpoint(var=tf.Variable(0.0))
    root = tf.train.Checkpoint(one=tf.train.Checkpoint(three=shared), two=tf.train.Checkpoint(three=shared))
    path = root.save(os.path.join(directory, "ckpt"))
    target = tf.train.Checkpoint()
    status = target.restore(path)
    target.one, target.two = tf.train.Checkpoint(), tf.train.Checkpoint()
    target.one.three = tf.train.Checkpoint(var=tf.Variable(0.0))
    target.two.three = tf.train.Checkpoint(var=tf.Variable(0.0))
    raises(AssertionError, status.assert_consumed)
    raises(AssertionError, status.assert_existing_objects_matched)


def objects_combined(tf, directory):
    """Two objects of the checkpoint may become one."""
    var = lambda value: tf.Variable(value, dtype=tf.float64)  # noqa: E731
    root = tf.train.Checkpoint(
        one=tf.train.Checkpoint(var1=var(32.0)), two=tf.train.Checkpoint(var2=var(64.0))
    )
    path = root.save(os.path.join(directory, "ckpt"))
    both = tf.train.Checkpoint(var1=var(0.0), var2=var(0.0))
    tf.train.Checkpoint(one=both, two=both).restore(path).assert_consumed().assert_existing_objects_matched()
    assert (float(both.var1), float(both.var2)) == (32.0, 64.0)


def empty_containers_ignored(tf, directory):
    path = tf.train.Checkpoint(a=[]).save(os.path.join(directory, "ckpt"))
    target = tf.train.Checkpoint(b=[])
    target.dep = []
    target.dep.append([])
    status = target.restore(path)
    status.assert_consumed()
    status.assert_existing_objects_matched()
    status.assert_nontrivial_match()


def dependency_loop(tf, directory):
    first = tf.train.Checkpoint(v=tf.Variable([3.0, 1.0, 4.0]))
    first.second = tf.train.Checkpoint(first=first, v=tf.Variable([1.0, 1.0, 2.0, 3.0]))
    path = first.save(os.path.join(directory, "ckpt"))
    loaded = tf.train.Checkpoint()
    status = loaded.restore(path)
    loaded.second = tf.train.Checkpoint()
    loaded.second.first = loaded
    raises(AssertionError, status.assert_consumed)
    loaded.v, loaded.second.v = tf.Variable([0.0] * 3), tf.Variable([0.0] * 4)
    status.assert_consumed()
    close(loaded.v, [3, 1, 4])
    close(loaded.second.v, [1, 1, 2, 3])
    loaded.v.assign([2.0, 7.0, 1.0])
    loaded.second.v.assign([2.0, 7.0, 1.0, 8.0])
    loaded.restore(path).assert_consumed()
    close(loaded.v, [3, 1, 4])
    close(loaded.second.v, [1, 1, 2, 3])


def restore_on_assign(tf, directory):
    path = tf.train.Checkpoint(var1=tf.Variable(4.0), var2=tf.Variable(8.0)).save(
        os.path.join(directory, "ckpt")
    )
    second = tf.train.Checkpoint(var2=tf.Variable(0.0))
    second.restore(path)
    late = tf.Variable(0.0)
    assert float(second.var2) == 8.0
    late.assign(-2.0)
    second.var1 = late
    assert float(late) == 4.0


def checkpoint_state(tf, directory):
    """No checkpoint is deleted, unless a manager does it."""
    saver = tf.train.Checkpoint(obj=tf.train.Checkpoint(var=tf.Variable(0.0)))
    for _ in range(10):
        saver.save(os.path.join(directory, "ckpt"))
    expected = {"checkpoint", *(f"ckpt-{number}.index" for number in range(1, 11))}
    assert expected <= set(os.listdir(directory))


def checkpoint_state_changing_var_list(tf, directory):
    prefix = os.path.join(directory, "ckpt")
    checkpoint = tf.train.Checkpoint(obj=tf.train.Checkpoint(var=tf.Variable(0.0)))
    for number in range(10):
        setattr(checkpoint, f"var_{number}", tf.Variable(number))
        checkpoint.save(prefix)
    assert tf.train.latest_checkpoint(directory) == prefix + "-10"
    assert list(tf.train.get_checkpoint_state(directory).all_model_checkpoint_paths) == [prefix + "-10"]
    made = [getattr(checkpoint, f"var_{number}") for number in range(10)]
    for variable in made:
        variable.assign(314)
    checkpoint.restore(prefix + "-6")
    assert [int(variable) for variable in made] == [0, 1, 2, 3, 4, 5, 314, 314, 314, 314]
    checkpoint.restore(prefix + "-10")
    assert [int(variable) for variable in made] == list(range(10))


def restore_after_adding_empty_trackable_data_structure(tf, directory):
    checkpoint = tf.train.Checkpoint(model=tf.train.Checkpoint(v=tf.Variable(0.0)))
    checkpoint.restore(None)
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    model = tf.train.Checkpoint(v=tf.Variable(1.0))
    model.dict, model.list = {"a": 1}, {"b": 1}
    tf.train.Checkpoint(model=model).restore(path).assert_existing_objects_matched()


def write_checkpoint_path_str_from_function(tf, directory):
    prefix = os.path.join(directory, "ckpt")
    saved, loaded = tf.train.Checkpoint(v=tf.Variable(1.0)), tf.train.Checkpoint(v=tf.Variable(0.0))
    write = tf.function(lambda: saved.write(prefix))
    for value in (1.0, 3.0):
        saved.v.assign(value)
        write()
        saved.v.assign(0.0)
        loaded.read(prefix).assert_existing_objects_matched().assert_consumed()
        assert float(loaded.v) == value


def inititialize_with_data_structures(tf, directory):
    path = tf.train.Checkpoint(
        a=[tf.Variable(0.0), tf.Variable(1.0)], b={"a": tf.Variable(2.0), "b": tf.Variable(3.0)}
    ).save(os.path.join(directory, "ckpt"))
    target = tf.train.Checkpoint(
        a=[tf.Variable(4.0), tf.Variable(5.0)], b={"a": tf.Variable(6.0), "b": tf.Variable(7.0)}
    )
    target.restore(path)
    assert [float(one) for one in target.a] == [0.0, 1.0]
    assert {key: float(one) for key, one in target.b.items()} == {"a": 2.0, "b": 3.0}


def a_model(tf):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(2.0)

    return Model()


def initialize_with_root_object(tf, directory):
    model = a_model(tf)
    model.v.assign(3.0)
    model.deferred = tf.Variable(5.0)
    path = tf.train.Checkpoint(model).save(os.path.join(directory, "ckpt"))
    other = a_model(tf)
    checkpoint = tf.train.Checkpoint(other)
    checkpoint.restore(path)
    assert float(other.v) == 3.0
    other.deferred = tf.Variable(1.0)
    assert float(other.deferred) == 5.0


def initialize_with_root_object_and_kwargs(tf, directory):
    model = a_model(tf)
    model.v.assign(3.0)
    assert "root.v already exists" in raises(ValueError, tf.train.Checkpoint, model, v=tf.Variable(5.0))
    path = tf.train.Checkpoint(model, separate=tf.Variable(5.0)).save(os.path.join(directory, "ckpt"))

    same, separate = a_model(tf), tf.Variable(1.0)
    loaded = tf.train.Checkpoint(same, separate=separate)
    loaded.restore(path).assert_consumed()
    assert (float(same.v), float(separate), int(loaded.save_counter)) == (3.0, 5.0, 1)

    swapped, v = tf.Module(), tf.Variable(100.0)
    swapped.separate = tf.Variable(200.0)
    loaded = tf.train.Checkpoint(swapped, v=v)
    loaded.restore(path).assert_consumed()
    assert (float(v), float(swapped.separate), int(loaded.save_counter)) == (3.0, 5.0, 1)

    v, separate = tf.Variable(100.0), tf.Variable(200.0)
    loaded = tf.train.Checkpoint(v=v, separate=separate)
    loaded.restore(path).assert_consumed()
    assert (float(v), float(separate), int(loaded.save_counter)) == (3.0, 5.0, 1)


def deferred_dependency_avoids_reference_cycles(tf, directory):
    deleted = []

    class Counted(tf.train.Checkpoint):
        def __del__(self):
            deleted.append(1)

    x = tf.train.Checkpoint(v=tf.Variable(100.0), counted=Counted())
    checkpoint = tf.train.Checkpoint(x)
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    assert deleted == []
    del checkpoint, x
    assert deleted == [1]
    no_v = tf.train.Checkpoint(counted=Counted())
    checkpoint = tf.train.Checkpoint(no_v)
    checkpoint.restore(path).expect_partial()
    del checkpoint, no_v
    assert deleted == [1, 1]


def root_arg(tf, directory):
    root, w, y = tf.train.Checkpoint(v=tf.Variable(1)), tf.Variable(2), tf.Variable(3)
    one = tf.train.Checkpoint(root=root, w=w, y=y)
    other, v, z = tf.train.Checkpoint(w=tf.Variable(4)), tf.Variable(5), tf.Variable(6)
    two = tf.train.Checkpoint(root=other, v=v, z=z)
    first, second = one.save(os.path.join(directory, "one")), two.save(os.path.join(directory, "two"))
    one.restore(second).expect_partial()
    two.restore(first).expect_partial()
    assert [int(value) for value in (root.v, w, y)] == [5, 4, 3]
    assert [int(value) for value in (other.w, v, z)] == [2, 1, 6]


def weakref_root(tf, directory):
    root = tf.train.Checkpoint(v=tf.Variable(1))
    reference = root.v.ref()
    checkpoint = tf.train.Checkpoint(root=weakref.ref(root))
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    root.v.assign(2)
    checkpoint.restore(path)
    assert int(root.v) == 1
    del root
    assert sys.getrefcount(reference.deref()) == 2  # `reference` and the argument.


def restore_incompatible_shape(tf, directory):
    path = tf.train.Checkpoint(v=tf.Variable([1.0, 1.0])).save(os.path.join(directory, "ckpt"))
    text = raises(ValueError, tf.train.Checkpoint(v=tf.Variable([1.0])).restore, path)
    assert "incompatible tensor with shape" in text


def save_restore_fspath(tf, directory):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(pathlib.Path(directory) / "ckpt")
    target = tf.train.Checkpoint(v=tf.Variable(0.0))
    target.restore(pathlib.Path(path))
    assert float(target.v) == 1.0


def read_write_fspath(tf, directory):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(pathlib.Path(directory) / "ckpt")
    target = tf.train.Checkpoint(v=tf.Variable(0.0))
    target.read(pathlib.Path(path))
    assert float(target.v) == 1.0


def ckpt_files_closed_after_restoration(tf, directory):
    path = tf.train.Checkpoint(root=tf.train.Checkpoint(v=tf.Variable(1))).save(
        os.path.join(directory, "ckpt")
    )
    tf.train.Checkpoint(root=tf.train.Checkpoint(v=tf.Variable(0))).restore(path)
    held = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
    assert not any(name.startswith(os.path.realpath(directory)) for name in held)


def keys_and_metadata(tf, directory):
    class Two(tf.Module):
        def __init__(self, first, second):
            super().__init__()
            self.kept = lambda: (first, second)

        def _serialize_to_tensors(self):
            return dict(zip(("v1", "v2"), self.kept(), strict=True))

        def _restore_from_tensors(self, tensors):
            for variable, name in zip(self.kept(), ("v1", "v2"), strict=True):
                variable.assign(tensors[name])

    variables = [tf.Variable(number) for number in (1, 2, 3, 4)]
    checkpoint = tf.train.Checkpoint(root=Two(*variables[:2]), child=Two(*variables[2:]))
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    reader = tf.train.load_checkpoint(path)
    keys = ["/.ATTRIBUTES/v1", "/.ATTRIBUTES/v2", "child/.ATTRIBUTES/v1", "child/.ATTRIBUTES/v2"]
    assert [int(reader.get_tensor(key)) for key in keys] == [1, 2, 3, 4]
    for variable in variables:
        variable.assign(0)
    checkpoint.restore(path).assert_consumed()
    assert [int(variable) for variable in variables] == [1, 2, 3, 4]
