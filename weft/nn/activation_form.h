// ActivationForm: how an activation passed between layers is divided over the ranks of tp; known before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Form of an activation: whole on every rank, or divided into parts.
struct ActivationForm {
  /// Dim along which the activation is divided.
  enum class Kind : uint8_t {
    whole,     ///< not divided
    rows,      ///< along the last dim: [..., part]
    channels,  ///< along dim 1: [n, part, h, w]
  };
  Kind kind = Kind::whole;             ///< how it is divided
  std::string layer = {};              ///< name of the layer that divided it: "0"
  std::vector<int64_t> segments = {};  ///< Split::segments of that layer

  bool is_whole() const { return kind == Kind::whole; }  ///< every rank has the same, whole activation
};

/// Optional base of blocks that can check before a run whether their layers support their parameters' splits.
class ChecksSplits {
 public:
  virtual ~ChecksSplits() = default;
  /// Returns the form of the block's output for an input of this form. Throws InputError if a layer does not support its split,
  /// or needs the whole activation but receives a part.
  virtual ActivationForm check_splits(const ActivationForm& input) = 0;
};

}  // namespace weft
