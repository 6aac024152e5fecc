// Blocks whose forward is Python's: modules of torch.nn, or anything with parameters that calls like one.
//
// The thread that runs a step does not hold Python's lock (the GIL): each function here takes it while it is in Python. C++
// owns no function of Python's: weft.Trainer does, so that Python's collector sees each reference of a cycle through a trainer.
// Classes with members of pybind11's are hidden, as those are.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/nn/model.h"
#include "weft/nn/modules/module_block.h"

namespace weft::python {

/// A function of Python's, as long as Python keeps it.
class [[gnu::visibility("hidden")]] Callback {
 public:
  explicit Callback(const pybind11::object& function) : function_(function) {}  ///< with the lock held
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  pybind11::object operator*() const;  ///< with the lock held; throws Error if the function is gone

 private:
  pybind11::weakref function_;
};

/// A block as weft/blocks.py describes it.
struct [[gnu::visibility("hidden")]] BlockOfPython {
  std::string name;
  std::string prefix;  ///< of its parameters' names
  /// Name below the prefix, tensor, and whether it is a parameter; each tensor in the first block that has it.
  std::vector<std::tuple<std::string, at::Tensor, bool>> tensors;
  TensorNames names;
  std::vector<int> uses;     ///< earlier blocks some of whose tensors it also reads
  pybind11::object forward;  ///< (inputs, training) -> outputs: tuples of tensors
};

/// The model of the blocks. `loss` is a function (outputs, target) -> (sum, count), or None: cross entropy.
Model model_of_blocks(const std::vector<BlockOfPython>& blocks, const pybind11::object& loss);

/// Tensors as a tuple, and back; throws InputError, in which `what` names it, for anything else.
pybind11::tuple tuple_of(const Tensors& tensors);
Tensors tensors_of(const pybind11::handle& tuple, const std::string& what);

}  // namespace weft::python
