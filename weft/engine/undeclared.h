// Finds what a block's forward reads though its parameters() lack it: a parameter that nothing gives memory, or that nothing
// trains.
#pragma once

#include <memory>
#include <string>

#include "weft/nn/flat/flat_model.h"

namespace weft {

struct ReadsSeen;

/// Watches the operators of this thread while it lives; a microsecond or two each.
class UndeclaredReads {
 public:
  UndeclaredReads(const FlatModel& model, const Tensors& inputs);
  ~UndeclaredReads();
  UndeclaredReads(const UndeclaredReads&) = delete;
  UndeclaredReads& operator=(const UndeclaredReads&) = delete;

  /// The first that was read, as people read it: "Float [4, 8], 'weight' of aten::linear"; empty: none.
  const std::string& first() const;

 private:
  std::unique_ptr<ReadsSeen> seen_;
};

}  // namespace weft
