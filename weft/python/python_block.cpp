#include "weft/python/python_block.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/nn/module.h>

#include "weft/base/error.h"
#include "weft/nn/loss/cross_entropy.h"

namespace py = pybind11;

namespace weft::python {
namespace {

/// Modules that hold tensors under their names, and calculate nothing.
std::shared_ptr<torch::nn::Module> module_of(const BlockOfPython& block) {
  auto root = std::make_shared<torch::nn::Module>(block.name);
  for (const auto& [name, tensor, is_parameter] : block.tensors) {
    torch::nn::Module* holder = root.get();
    size_t begin = 0;
    for (size_t dot = 0; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
      const std::string part = name.substr(begin, dot - begin);
      const auto children = holder->named_children();
      const auto* child = children.find(part);
      holder = child ? child->get() : holder->register_module(part, std::make_shared<torch::nn::Module>(part)).get();
    }
    const std::string last = name.substr(begin);
    if (is_parameter) {
      holder->register_parameter(last, tensor, tensor.requires_grad());
    } else {
      holder->register_buffer(last, tensor);
    }
  }
  return root;
}

NamedBlock named_block(const BlockOfPython& described) {
  const auto module = module_of(described);
  const auto function = std::make_shared<Callback>(described.forward);
  const auto forward = [function, module = module.get(), name = described.name](const Tensors& inputs) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return tensors_of((**function)(tuple_of(inputs), module->is_training()), fmt::format("block {}", name));
  };
  return {.name = described.name,
          .prefix = described.prefix,
          .block = module_block(described.name, module, forward, described.names),
          .uses = described.uses};
}

Loss loss_of(const py::object& loss) {
  if (loss.is_none()) return cross_entropy;
  return [function = std::make_shared<Callback>(loss)](const Tensors& outputs, const at::Tensor& target) -> LossValue {
    const py::gil_scoped_acquire lock;
    const py::tuple result = (**function)(tuple_of(outputs), target);
    const auto count = result[1];
    if (THPVariable_Check(count.ptr())) return {result[0].cast<at::Tensor>(), count.cast<at::Tensor>()};
    return {result[0].cast<at::Tensor>(), count.cast<int64_t>()};
  };
}

}  // namespace

Callback::~Callback() {
  const py::gil_scoped_acquire lock;
  function_ = py::weakref();
}

py::object Callback::operator*() const {
  py::object function = function_();
  if (function.is_none()) throw Error("the weft.Trainer that this call is for is gone");
  return function;
}

Model model_of_blocks(const std::vector<BlockOfPython>& blocks, const py::object& loss) {
  Model model{.name = "model", .blocks = {}, .loss = loss_of(loss)};
  if (loss.is_none()) model.hits = count_hits;
  for (const BlockOfPython& block : blocks) model.blocks.push_back(named_block(block));
  return model;
}

py::tuple tuple_of(const Tensors& tensors) {
  py::tuple tuple(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) tuple[i] = py::cast(tensors[i]);
  return tuple;
}

Tensors tensors_of(const py::handle& tuple, const std::string& what) {
  Tensors tensors;
  for (const py::handle value : tuple) {
    if (!THPVariable_Check(value.ptr())) {
      throw InputError(
          fmt::format("{} returned a {}, not a tensor or a tuple of tensors", what, Py_TYPE(value.ptr())->tp_name));
    }
    tensors.push_back(value.cast<at::Tensor>());
  }
  return tensors;
}

}  // namespace weft::python
