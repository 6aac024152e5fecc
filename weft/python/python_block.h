// Blocks whose forward is Python's: modules of torch.nn, or anything with parameters that calls like one.
//
// The thread that runs a step does not hold Python's lock (the GIL): each function here takes it while it is in Python. What
// Python owns is let go with the lock held, in whatever thread lets go last. Classes with members of pybind11's are hidden, as
// those are.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/nn/model.h"

namespace weft::python {

/// An object of Python's, held by C++.
class [[gnu::visibility("hidden")]] Held {
 public:
  explicit Held(pybind11::object object) : object_(std::move(object)) {}
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const pybind11::object& operator*() const { return object_; }  ///< with the lock held

 private:
  pybind11::object object_;
};

/// A block as weft/blocks.py describes it.
struct [[gnu::visibility("hidden")]] BlockOfPython {
  std::string name;
  std::string prefix;  ///< of its parameters' names
  /// Name below the prefix, tensor, and whether it is a parameter; each tensor in the first block that has it.
  std::vector<std::tuple<std::string, at::Tensor, bool>> tensors;
  std::vector<std::string> embeddings;  ///< those whose rows are looked up by id
  std::vector<int> uses;                ///< earlier blocks some of whose tensors it also reads
  pybind11::object forward;             ///< (inputs, training) -> outputs: tuples of tensors
};

/// The model of the blocks. `loss` is a function (outputs, target) -> (sum, count), or None: cross entropy.
Model model_of_blocks(const std::vector<BlockOfPython>& blocks, const pybind11::object& loss);

/// Tensors as a tuple, and back; throws InputError, in which `what` names it, for anything else.
pybind11::tuple tuple_of(const Tensors& tensors);
Tensors tensors_of(const pybind11::handle& tuple, const std::string& what);

}  // namespace weft::python
