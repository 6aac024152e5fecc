// Rewrites a state dict's pickle into one that LibTorch's unpickler reads.
//
// Python's state dicts are collections.OrderedDict, with a `_metadata` attribute set by BUILD. LibTorch reads the class as None
// and BUILD as a call. Here ordered dicts become plain ones, and the state for BUILD becomes the second element of a tuple with
// the dict. Objects of other classes and functions (argparse.Namespace, Counter, numpy's scalars), which may accompany the
// state dict, become tuples of their arguments: nothing is looked up or run. Opcodes are those of Python's pickletools,
// protocols 2 to 5.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Returns the same pickle with plain dicts. Throws InputError, whose text continues a file name, for any other pickle.
std::string with_plain_dicts(std::string_view pickle);

}  // namespace weft
