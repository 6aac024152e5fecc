// Rows of the fuzz of weft/nn's public functions: how each is called with good tensors, and what it computes by LibTorch's
// formula, which is run in float64.
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

/// The sizes and numbers of one random call. The same seed gives the same.
class Case {
 public:
  explicit Case(unsigned seed) : seed_(seed) {}
  /// What a letter of an argument's sizes stands for: a digit itself, one of the letters of kSizes some size, now and then 0.
  int64_t size(char letter) const;
  /// `good`, or in some calls another number, which may be wrong.
  int64_t number(int which, int64_t good);
  /// One of two ways to call.
  bool flag(int which) const { return random(1000 + which).one_in(2); }
  /// A parameter that lives as long as the case; with a place for its gradient if the value takes one and flag(9).
  Parameter& hold(const at::Tensor& value, bool always_bound = false);
  /// What has arrived in such a place; undefined where there is none.
  at::Tensor held_gradient(const at::Tensor& value) const;
  /// Whether a number() was another.
  bool is_odd() const { return odd_; }

 private:
  test::Random random(int which) const { return test::Random(seed_ * 7919U + static_cast<unsigned>(which)); }

  unsigned seed_;
  bool odd_ = false;
  std::deque<Parameter> held_;
};

/// Of a function of (arguments) or (arguments, case) that returns a tensor, several, or what is none.
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
  const char* function;  ///< as the header declares it
  /// The types that good calls have, "fd" of f, d and b for float32, float64 and bfloat16 (all where nothing is said), and ":",
  /// or "~" where gradients are compared too. Then the sizes of each tensor, a letter a dim, of floats; behind them "#v": of
  /// ids below v's size; "+": positive; "?": perhaps undefined; "=": float32 in every call; "D": float64; "L": channels last;
  /// "M": so, and contiguous in every call; "!": takes no gradient.
  const char* spec;
  Call ours;
  Call theirs = {};  ///< of float64; empty: ours need not crash, that is all
};

/// A row's spec, read.
struct Spec {
  explicit Spec(const char* text);
  std::string types = "fdb";
  bool differentiable = false;
  std::vector<std::string> arguments = {};
};

/// Each is a part of the table.
std::vector<Row> kernel_rows();
std::vector<Row> attention_rows();
std::vector<Row> layer_rows();
std::vector<Row> part_rows();

inline Tensors list(const auto&... tensors) { return {tensors...}; }

/// An error of a formula: such a call has no result.
void expect(bool holds);

}  // namespace weft::fuzz_nn
