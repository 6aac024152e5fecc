// What an operator does, from its schema: which arguments it writes, whether it touches memory, waits, or draws random numbers.
#pragma once

#include <optional>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace weft::checked_device {

struct Signature {
  const char* name = "";            ///< "aten::add.Tensor"
  bool is_view = false;             ///< touches no memory
  bool waits = false;               ///< its result depends on values, so the host waits, as on CUDA
  bool draws = false;               ///< random numbers, without a generator argument
  std::vector<bool> writes;         ///< by argument
  std::optional<size_t> generator;  ///< that argument is an optional generator
  std::optional<size_t> indices;    ///< that argument may have tensors of the CPU; with booleans in it the host waits
};

const Signature& signature_of(const c10::OperatorHandle& op);

}  // namespace weft::checked_device
