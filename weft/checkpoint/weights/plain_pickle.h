// What LibTorch's unpickler does not read of a state dict's pickle, written as what it does.
//
// Python's state dicts are collections.OrderedDict, with a `_metadata` that is set by BUILD. LibTorch takes the first for None
// and the second for a call. Here ordered dicts become plain ones, and the state that BUILD would set is left beside the dict,
// as a tuple of both. What other classes and functions would make (argparse.Namespace, Counter, numpy's scalars), which may lie
// beside the state dict, becomes tuples of what it would be made of: nothing is looked up or run. Opcodes are those of Python's
// pickletools, protocols 2 to 5.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// The same pickle with plain dicts. Throws InputError, in words that follow a file's name, for what is no such pickle.
std::string with_plain_dicts(std::string_view pickle);

}  // namespace weft
