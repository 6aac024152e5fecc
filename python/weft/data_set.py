"""A sequence of samples, as C++ reads it."""
from torch.utils.data import default_collate

from weft import _weft
from weft.arguments import pair_of, target_of, tensors_of
from weft.errors import InputError, kind


def is_sequence(data):
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (str, bytes, dict))


def collate_of(collate):
    if collate is not None and not callable(collate):
        raise InputError(f"collate is {kind(collate)}; it must be a function of a list of samples")
    return collate or default_collate


def data_text(size, shuffle):
    """What a rank reads, for errors."""
    return "an iterable of batches" if size < 0 else f"{size} samples{', shuffled' if shuffle else ''}"


def size_of(data):
    try:
        size = len(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the data set's length is no number of samples: {error}") from error
    if size == 0:
        raise InputError("the data set is empty")
    return size


def dataset_of(data, collate, ended, note):
    """The data set for C++, and the function that it calls, which the caller keeps."""

    def fetch(indices, _epoch):
        samples = []
        for index in indices:
            if ended.is_set():
                raise InputError("the data set is no longer read")
            samples.append(data[index])
        inputs, target = pair_of(collate(samples), "a batch of the data set", "; make one of it with `collate`")
        inputs = tuple(tensors_of(inputs))
        note(inputs)
        return inputs, target_of(target)

    return _weft.Dataset(size_of(data), fetch), fetch
