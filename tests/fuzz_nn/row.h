// Rows of the fuzz test of weft/nn's public functions: how each is called with valid tensors, and the LibTorch formula for its
// result, run in float64.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/seeds.h"
#include "weft/nn/block.h"

namespace weft::fuzz_nn {

/// Sizes and numbers of one random call. The same seed gives the same values.
class Case {
 public:
  explicit Case(unsigned seed) : seed_(seed) {}
  /// Size for a letter of an argument's spec: a digit means itself, a letter of kSizes a random size, now and then 0.
  int64_t size(char letter) const;
  /// Returns `good`, or in some calls another number, which may be invalid.
  int64_t number(int which, int64_t good);
  /// Selects one of two ways to call.
  bool flag(int which) const { return random(1000 + which).one_in(2); }
  /// A parameter that lives as long as the case; it has a place for its gradient if the value takes one and flag(9).
  Parameter& hold(const at::Tensor& value, bool always_bound = false);
  /// The gradient that arrived in such a place; undefined without one.
  at::Tensor held_gradient(const at::Tensor& value) const;
  /// Returns whether a number() was replaced.
  bool is_odd() const { return odd_; }

 private:
  test::Random random(int which) const { return test::Random(seed_ * 7919U + static_cast<unsigned>(which)); }

  unsigned seed_;
  bool odd_ = false;
  std::deque<Parameter> held_;
};

/// Wraps a function of (arguments) or (arguments, case) that returns a tensor, several, or no tensor.
class Call {
 public:
  Call() = default;
  template <class F>
  requires(!std::is_same_v<F, Call>) Call(F call)
      : call_([call](const Tensors& a, Case& c) {
          if constexpr (std::is_invocable_v<F, const Tensors&>) {
            return listed([&]() -> decltype(auto) { return call(a); });
          } else {
            return listed([&]() -> decltype(auto) { return call(a, c); });
          }
        }) {}
  Tensors operator()(const Tensors& arguments, Case& c) const { return call_(arguments, c); }
  explicit operator bool() const { return static_cast<bool>(call_); }

 private:
  template <class F>
  static Tensors listed(const F& call) {
    using Result = std::remove_cvref_t<decltype(call())>;
    if constexpr (std::is_same_v<Result, at::Tensor>) {
      return {call()};
    } else if constexpr (std::is_same_v<Result, Tensors>) {
      return call();
    } else {
      return static_cast<void>(call()), Tensors{};
    }
  }

  std::function<Tensors(const Tensors&, Case&)> call_;
};

struct Row {
  const char* function;  ///< as declared in the header
  /// Types of valid calls: "fd" of f, d and b for float32, float64 and bfloat16 (all if omitted), followed by ":", or "~" to
  /// also compare gradients. Then the sizes of each float tensor, a letter per dim, followed by "#v": ids below v's size; "+":
  /// positive; "?": possibly undefined; "=": float32 in every call; "D": float64; "L": channels last; "M": channels last and
  /// contiguous in every call; "!": takes no gradient.
  const char* spec;
  Call ours;
  Call theirs = {};        ///< in float64; empty: ours only must not crash
  bool on_device = false;  ///< as other devices run it, forward and backward
};

/// A parsed spec of a row.
struct Spec {
  explicit Spec(const char* text);
  std::string types = "fdb";
  bool differentiable = false;
  std::vector<std::string> arguments = {};
};

/// Parts of the table.
std::vector<Row> kernel_rows();
std::vector<Row> attention_rows();
std::vector<Row> layer_rows();
std::vector<Row> part_rows();

inline Tensors list(const auto&... tensors) { return {tensors...}; }

/// Throws an error of a formula: such a call has no result.
void expect(bool holds);

}  // namespace weft::fuzz_nn
