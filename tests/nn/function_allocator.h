// A FlatAllocator from a function, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "weft/nn/flat/flat_options.h"

namespace weft::test {

class FunctionAllocator : public FlatAllocator {
 public:
  using Function = std::function<at::Tensor(FlatBuffer, int64_t numel, at::ScalarType dtype, const std::string& what)>;
  explicit FunctionAllocator(Function function) : function_(std::move(function)) {}
  at::Tensor allocate(FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) override {
    return function_(buffer, numel, dtype, what);
  }

 private:
  Function function_;
};

}  // namespace weft::test
