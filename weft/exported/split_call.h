// SplitCall: what changes in a call of an exported graph when layers are split over the ranks of tp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// A change of an argument.
struct SplitChange {
  enum class Kind {
    divided,  ///< a size, which the number of ranks divides
    copied,   ///< a whole tensor beside parts: its gradient is summed over the ranks
    parted,   ///< a whole tensor of which the rank takes its part along `dim`
  };
  Kind kind = Kind::copied;
  size_t argument = 0;      ///< index in the schema
  int64_t element = -1;     ///< of a list; -1: it is none
  int64_t dim = 0;          ///< parted
  bool is_changed = false;  ///< copied: operators write into the tensor's memory, so it is cloned
};

/// A call beside parts. On one rank nothing changes.
struct SplitCall {
  enum class Layer {
    none,
    columns,    ///< a linear layer of parts of the outputs, or of the classes
    rows,       ///< a linear layer of parts of the inputs
    embedding,  ///< of parts of the entries
  };
  Layer layer = Layer::none;
  bool is_addmm = false;  ///< the linear layer adds its bias to a product with a weight [inputs, outputs]
  std::string name = {};  ///< of collectives, in errors
  std::vector<SplitChange> changes = {};
  int64_t dim = -1;      ///< dropout: divided dimension of its input; -1: none
  int64_t segments = 1;  ///< dropout: of that dimension
};

}  // namespace weft
