// ActivationForm: what of an activation each rank of tp has where it goes from one layer to the next; and what tells it before
// anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Whole on every rank, or a part on each.
struct ActivationForm {
  /// Along which dim it is divided.
  enum class Kind : uint8_t {
    whole,     ///< none
    rows,      ///< the last one: [..., part]
    channels,  ///< dim 1: [n, part, h, w]
  };
  Kind kind = Kind::whole;             ///< how it is divided
  std::string layer = {};              ///< that put the parts out: "0"
  std::vector<int64_t> segments = {};  ///< as Split::segments of that layer

  bool is_whole() const { return kind == Kind::whole; }  ///< alike on all ranks
};

/// A second base of blocks that can tell before a run whether their layers work with the splits that their parameters have.
class ChecksSplits {
 public:
  virtual ~ChecksSplits() = default;
  /// What the block hands on when it is given this. Throws InputError for splits that its layers cannot have, and where a
  /// layer would be given parts that it cannot work on.
  virtual ActivationForm check_splits(const ActivationForm& input) = 0;
};

}  // namespace weft
