// Finds parameters that a block's forward reads but its parameters() lack: such a parameter gets no memory or is not trained.
#pragma once

#include <memory>
#include <string>

#include "weft/nn/flat/flat_model.h"

namespace weft {

struct ReadsSeen;

/// Observes this thread's operators during its lifetime; costs one or two microseconds per operator.
class UndeclaredReads {
 public:
  UndeclaredReads(const FlatModel& model, const Tensors& inputs);
  ~UndeclaredReads();
  UndeclaredReads(const UndeclaredReads&) = delete;
  UndeclaredReads& operator=(const UndeclaredReads&) = delete;

  /// The first such read, as text: "Float [4, 8], 'weight' of aten::linear"; empty if there was none.
  const std::string& first() const;

 private:
  std::unique_ptr<ReadsSeen> seen_;
};

}  // namespace weft
