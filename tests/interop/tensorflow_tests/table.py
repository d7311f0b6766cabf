"""Each case of TensorFlow 2.15's own tests, and of Keras 2.15's, and how it is tested here.

A row is a file of theirs: the module here that has its cases, and the cases by name. A case that passes here
has the name of the function that tests it; the others have the reason why there is none. A name with a prefix
(`list_copy`) is for a case whose name occurs in several classes of the file.
"""

# ruff: noqa: E501  rows of a table

from typing import NamedTuple

GRAPH = "needs graph mode"
PRIVATE = "rejected: not in TensorFlow's public API"


KINDS = ((GRAPH,), ("rejected",), ("of a later", "the same"))
"""How a reason begins, by column of the table."""


class File(NamedTuple):
    """A file of tests: `passes` are functions of `module`, `others` cases with why they are not retold."""

    path: str
    module: str
    passes: tuple[str, ...]
    others: dict[str, str]


def _all(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


FILES = [
    File(
        "tensorflow/python/checkpoint/checkpoint_test.py",
        "checkpoint",
        (
            "more_complex_saveable_returned", "assert_consumed_no_checkpoint", "deep_copy_checkpoint",
            "passing_checkpoint_options", "custom_numbering", "partial_restore_warning_attribute",
            "attribute_exception", "silence_partial_warning", "variable_name_escaping", "numbered_path",
            "local_name_validation", "late_dependency_tracking", "dep_after_var", "overlapping_restores",
            "ambiguous_load", "objects_combined", "empty_containers_ignored", "dependency_loop",
            "restore_on_assign", "checkpoint_state", "checkpoint_state_changing_var_list",
            "restore_after_adding_empty_trackable_data_structure", "write_checkpoint_path_str_from_function",
            "inititialize_with_data_structures", "initialize_with_root_object",
            "initialize_with_root_object_and_kwargs", "deferred_dependency_avoids_reference_cycles", "root_arg",
            "weakref_root", "restore_incompatible_shape", "save_restore_fspath", "read_write_fspath",
            "ckpt_files_closed_after_restoration", "keys_and_metadata",
        ),
        {
            **_all(GRAPH, "testMoreComplexSaveableReturnedWithGlobalName test_save_in_graph_but_no_session "
                   "test_reference_variable test_trackable_save_restore_nested"),
            **_all(PRIVATE, "testAddVariable testInitNotCalled testShapeDtype testFreezing "
                   "test_defer_objects_with_values_only"),
            **_all("rejected: a path that is a tensor",
                   "test_write_checkpoint_path_tensor_from_function "
                   "test_write_checkpoint_path_tensor_does_not_exist_from_function"),
            "test_checkpoint_saved_model_compatibility":
                "rejected: tf.saved_model.save",
        },
    ),
    File(
        "tensorflow/python/checkpoint/checkpoint_management_test.py",
        "checkpoint_management",
        (
            "rel_path", "update_checkpoint_state_save_relative_paths", "fs_path",
            "check_point_state_fails_when_incomplete", "check_point_completes_relative_paths", "deletion",
            "keep_all", "save_restore_state", "continue_from_unmanaged", "clock_reset", "custom_numbering",
            "custom_checkpoint_prefix", "restore_or_initialize", "checkpoint_manager_f_spath_directory",
            "latest_checkpoint_f_spath_directory", "checkpoint_interval", "checkpoint_interval_with_restore",
        ),
        {
            **_all(GRAPH, "testNameCollision testRelativePath testCheckpointExists testGetCheckpointMtimes "
                   "testRemoveCheckpoint"),
            **_all(PRIVATE, "testAbsPath testAllModelCheckpointPaths testUpdateCheckpointState"),
            "testCheckpointIntervalWithLastCheckpointStep": "of a later TensorFlow: 2.15 has no last_checkpoint_step",
        },
    ),
    File(
        "tensorflow/python/trackable/data_structures_test.py",
        "data_structures",
        (
            "list_non_layer_variables", "list_copy", "list_slicing", "list_mul", "list_json_serialization",
            "overrides_all_list_methods", "pickle_list", "same_structure_list",
            "mutate_without_trackable_components", "list_wrapper_basic", "accepts_non_trackable_content",
            "wrapper_changes_list", "list_changes_wrapper", "not_hashable", "del_item", "del_slice",
            "set_slice_can_save_for_non_trackable_items", "set_slice_cannot_save_if_trackable_modified",
            "set_slice_truncate", "set_slice_extend", "i_mul_negative", "i_mul_positive", "sort", "hashing",
            "list_shallow_copy", "list_deep_copy", "dict_shallow_copy", "dict_deep_copy",
            "shallow_copy_trackable", "deep_copy_trackable", "pickle_dict", "list_add_order",
            "same_structure_dict", "tuple_json_serialization", "tuple_non_layer_variables", "tuple_copy",
            "tuple_slicing", "tuple_hash", "tuple_i_mul", "tuple_i_add", "tuple_mul", "pickle_tuple",
            "named_tuple", "named_tuple_conflicting_attributes", "named_subclassing", "unnamed_subclassing",
            "namedtuple_subclass_with_custom_new", "same_structure_tuple", "flatten_tuple", "python_map_impl",
            "dataset_map", "loop_assigned_module",
        ),
        {
            **_all(PRIVATE, "ListTests.testNotTrackable testCallNotImplemented testNoPop testHash testIMul_zero "
                   "testIMul MappingTests.testJSONSerialization testNoOverwrite testNonStringKeys "
                   "testConstructableFromSequence testDatasetMapNamed"),
            **_all(GRAPH, "ListTests.testNesting testFunctionCaching"),
        },
    ),
    File(
        "tensorflow/python/trackable/{base,autotrackable,python_state}_test.py",
        "tracking",
        (
            "assert_consumed_with_unused_python_state", "buggy_get_config", "multiple_assignment",
            "remove_dependency", "list_basic", "mutation_dirties_list", "out_of_band_edit_dirties_list",
            "nested_lists", "assertions", "wrapper", "save_restore_numpy_state",
        ),
        {
            **_all(PRIVATE, "testOverwrite testAddVariableOverwrite testDocstringExample "
                   "testAssertConsumedFailsWithUsedPythonState"),
            **_all(GRAPH, "testNoGraphPollution"),
        },
    ),
    File(
        "keras/tests/tracking_test.py",
        "tracking",
        (
            "list_tracking", "sub_model_tracking", "sub_sequential_tracking", "layer_tracked_through_sequential",
            "list_model_containers_compare_equal", "list_tensor_conversion",
            "list_layer_collection_with_external_mutation", "mapping_tracking",
            "mapping_layer_collection_with_external_mutation", "dict_wrapper_bad_keys", "pop_no_save",
            "external_modification_no_save", "overwrite_can_still_save", "iter", "tuple_tracking",
            "tuple_model_containers_compare_equal", "dictionaries_basic", "list_losses_forwarded",
            "tuple_losses_forwarded",
        ),
        {
            **_all(GRAPH, "ListTests.testUpdatesForwarded TupleTests.testUpdatesForwarded"),
            **_all(PRIVATE, "testDictWrapperNoDependency testNonStringKeyNotTrackableValue "
                   "testNonAppendNotTrackable testNoDependency"),
        },
    ),
    File(
        "keras/saving/legacy/save_weights_test.py",
        "saving",
        (
            "weight_loading", "weight_loading_graph_model", "weight_loading_subclassed_model",
            "weight_loading_graph_model_added_layer", "weight_loading_graph_model_added_no_weight_layer",
            "weight_loading_subclassed_model_added_layer", "incompatible_checkpoint", "relative_path",
            "nonexistent_prefix_directory", "sequential_weight_loading", "nested_model_weight_loading",
        ),
        {
            **_all(GRAPH, "test_no_default_session test_no_graph_pollution"),
            **_all(PRIVATE, "test_weight_preprocessing "
                   "test_preprocess_weights_for_loading_rnn_should_be_idempotent"),
            "test_tensorflow_format_overwrite": "rejected: overwrite=False raises FileExistsError, without a prompt",
            "test_load_weights_from_saved_model": "rejected: saving a model whole",
            "test_directory_passed": "rejected: a prefix that ends in a slash",
            "test_sequential_weight_loading_group_name_with_incorrect_length": "the same as sequential_weight_loading",
            "test_sequential_weight_loading_group_name_with_incorrect_shape": "the same as sequential_weight_loading",
        },
    ),
    File(
        "keras/tests/tracking_util_test.py",
        "saving",
        (
            "layer_deduplication", "naming_with_optimizer", "save_restore", "deferred_restoration_usage_eager",
            "agnostic_usage", "partial_restore_warning_object", "anonymous_vars_in_init",
            "deferred_slot_restoration", "many_saves_and_restores", "sequential", "initialize_if_not_restoring",
            "ignore_save_counter",
        ),
        {
            **_all(GRAPH, "testSaveWithOnlyKerasSession testUsageGraph testWithDefun testManySavesGraph "
                   "testManyRestoresGraph testSaveGraphLoadEager testSaveEagerLoadGraph testLoadFromNameBasedSaver"),
            "test_trackable_save_restore": "rejected: tf.compat.v1.make_template",
        },
    ),
]  # fmt: skip


def markdown():
    """Return the table as the documentation shows it."""
    lines = [
        "| file | passes here | needs graph mode | rejected | other |",
        "| --- | --- | --- | --- | --- |",
    ]
    for file in FILES:
        counts = (len(file.passes), *(_count(file, *beginnings) for beginnings in KINDS))
        lines.append(f"| `{file.path}` | {' | '.join(map(str, counts))} |")
    for file in FILES:
        lines += ["", f"### `{file.path}`", "", "| case | here |", "| --- | --- |"]
        where = f"tests/interop/tensorflow_tests/{file.module}.py"
        lines += [f"| {name} | passes: `{where}` |" for name in file.passes]
        lines += [f"| {name} | {why} |" for name, why in file.others.items()]
    return "\n".join(lines) + "\n"


def _count(file: File, *beginnings: str) -> int:
    return sum(why.startswith(beginnings) for why in file.others.values())
