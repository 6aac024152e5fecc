// Which operators a file may call.
#include "weft/exported/operator_rule.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace weft::operator_rule_test {
namespace {

std::string reason(const std::string& name, const std::string& overload) {
  const auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
  EXPECT_TRUE(handle.has_value()) << name;
  return handle ? refused_because(*handle) : "unknown";
}

TEST(OperatorRule, operators_on_values_are_called_others_refused) {
  const struct {
    std::string name, overload, text;
  } cases[] = {
      {"linear", "", ""},
      {"conv2d", "", ""},
      {"lstm", "input", ""},
      {"index_put_", "", ""},
      {"__and__", "Tensor", ""},
      {"lift_fresh_copy", "", ""},
      {"_weight_norm", "", ""},
      {"_upsample_bilinear2d_aa", "vec", ""},
      {"from_file", "", "a file"},
      {"as_strided", "", "stored"},
      {"as_strided_scatter", "", "stored"},
      {"set_", "source_Tensor", "stored"},
      {"resize_as_", "", "stored"},
      {"slice_inverse", "", "stored"},
      {"_reshape_alias", "", "private"},
      {"_index_put_impl_", "", "private"},
      {"max_pool2d_with_indices_backward", "", "private"},
      {"segment_reduce", "", "private"},
      {"linalg_lu_solve", "", "private"},
      {"_foobar", "", "private"},
      {"add", "out", "without out="},
      {"to_sparse", "", "dense"},
      {"quantize_per_tensor", "", "dense"},
      {"mkldnn_linear", "", "dense"},
  };
  for (const auto& c : cases) {
    const std::string said = reason(c.name, c.overload);
    EXPECT_EQ(said.empty(), c.text.empty()) << c.name << ": " << said;
    EXPECT_NE(said.find(c.text), std::string::npos) << c.name << ": " << said;
  }
}

TEST(OperatorRule, arguments_that_would_crash_an_operator_are_refused) {
  const at::Tensor matrix = at::ones({8, 8}), four = at::ones({4});
  const at::Tensor input = at::ones({2, 3, 4}), state = at::ones({1, 3, 5}), bias = at::ones({15});
  const c10::List<at::Tensor> fitting({at::ones({15, 4}), at::ones({15, 5}), bias, bias}), wrong({bias, bias, bias, bias}),
      of_lstm({at::ones({20, 4}), at::ones({20, 3}), at::ones({3, 5})}), states({at::ones({1, 3, 3}), state});
  const struct {
    std::string name, overload;
    std::vector<c10::IValue> arguments;
    std::string text;
  } cases[] = {
      {"_weight_norm", "", {matrix, four, 0}, "4 norms of 8 rows"},
      {"_weight_norm", "", {matrix, at::ones({8, 1}), 0}, ""},
      {"gru", "input", {input, state, fitting, true, 1, 0.0, true, false, false}, ""},
      {"gru", "input", {input, state, fitting, true, 2, 0.0, true, false, false}, "do not fit"},
      {"gru", "input", {input, state, fitting, true, -1, 0.0, true, false, false}, "do not fit"},
      {"gru", "input", {input, state, fitting, true, 1, 0.0, true, true, false}, "do not fit"},
      {"gru", "input", {input, state, fitting, true, 1, 0.0, true, false, true}, "do not fit"},
      {"gru", "input", {input, state, wrong, true, 1, 0.0, true, false, false}, "do not fit"},
      {"gru", "input", {matrix, state, fitting, true, 1, 0.0, true, false, false}, "do not fit"},
      {"lstm", "input", {input, states, of_lstm, false, 1, 0.0, true, false, false}, ""},
      {"lstm", "input", {input, states, fitting, true, 1, 0.0, true, false, false}, "do not fit"},
      {"chunk", "", {matrix, INT64_MAX, 0}, "is above 65536"},
      {"tensor_split", "sections", {matrix, 4, 0}, ""},
      {"tensor_split", "tensor_indices_or_sections", {matrix, at::scalar_tensor(4, at::kLong), 0}, ""},
      {"tensor_split",
       "tensor_indices_or_sections",
       {matrix, at::scalar_tensor(int64_t{1} << 40, at::kLong), 0},
       "is above 65536"},
      {"tensor_split", "tensor_indices_or_sections", {matrix, at::ones({1}, at::kLong).expand(1 << 20), 0}, "1048576 parts"},
      {"unbind", "int", {matrix, 0}, ""},
      {"unbind", "int", {four.view({4, 1}).expand({4, int64_t{1} << 40}), 1}, "1099511627776 parts"},
      {"split", "Tensor", {matrix, 2, 0}, ""},
      {"split", "Tensor", {four.view({4, 1}).expand({4, int64_t{1} << 40}), 1, 1}, "1099511627776 parts"},
      {"matrix_power", "", {matrix, INT64_MIN}, "is above 65536"},
  };
  for (const auto& c : cases) {
    const CallCheck check = check_of(*c10::Dispatcher::singleton().findSchema({"aten::" + c.name, c.overload}));
    ASSERT_NE(check, nullptr) << c.name;
    const std::string said = test::refusal([&] { check(c.arguments); });
    EXPECT_EQ(said.empty(), c.text.empty()) << c.name << ": " << said;
    EXPECT_NE(said.find(c.text), std::string::npos) << c.name << ": " << said;
  }
}

/// Those of a later LibTorch too.
TEST(OperatorRule, no_operator_that_is_called_takes_a_file_or_storage) {
  int num_called = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle || !name.name.starts_with("aten::") || !refused_because(*handle).empty()) continue;
    ++num_called;
    for (const c10::Argument& argument : handle->schema().arguments()) {
      EXPECT_FALSE(argument.is_out()) << name;
      EXPECT_EQ(argument.name().find("file"), std::string::npos) << name;
      EXPECT_EQ(argument.type()->str().find("Storage"), std::string::npos) << name;
    }
  }
  EXPECT_GT(num_called, 1000);
}

}  // namespace
}  // namespace weft::operator_rule_test
