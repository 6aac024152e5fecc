// Calls every public function of weft/nn with tensors of any shapes, types, strides and devices: it must match LibTorch's
// formula, forward and backward, or refuse them, and must not crash (best with the asan preset). WEFT_FUZZ=100000 makes that
// many calls; WEFT_SEED=17 runs one call.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "tests/fuzz/watched.h"
#include "tests/fuzz_nn/arguments.h"
#include "weft/base/error.h"
#include "weft/nn/operators_path.h"
#include "weft/nn/tensor_checks.h"

namespace weft::fuzz_nn {
namespace {

const std::vector<Row>& table() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows = kernel_rows();
    for (const auto& more : {attention_rows(), layer_rows(), part_rows()}) rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }();
  return all;
}

double tolerance_of(const Tensors& tensors) {
  double tolerance = 3e-4;
  for (const at::Tensor& x : tensors) {
    if (x.defined() && x.scalar_type() == at::kHalf) tolerance = std::max(tolerance, 2e-2);
    if (x.defined() && x.scalar_type() == at::kBFloat16) tolerance = std::max(tolerance, 8e-2);
  }
  return tolerance;
}

/// Empty if both are equal within rounding.
std::string difference(const at::Tensor& ours, const at::Tensor& theirs, double tolerance) {
  if (ours.sizes() != theirs.sizes()) return fmt::format("is {}, not {}", type_and_shape(ours), type_and_shape(theirs));
  if (ours.is_meta() || ours.numel() == 0) return {};
  const at::Tensor dense = ours.layout() == at::kStrided ? ours : ours.to_dense();
  const at::Tensor a = dense.detach().to(at::kDouble), b = theirs.detach().to(at::kDouble);
  const at::Tensor same = a.eq(b).logical_or(a.isnan().logical_and(b.isnan()));
  const at::Tensor size = at::where(b.isfinite(), b, 0.0).abs().max().clamp_min(1.0);
  const at::Tensor wrong = same.logical_or(a.sub(b).abs().le(size * tolerance)).logical_not();
  if (!wrong.any().item<bool>()) return {};
  return fmt::format("differs: {} instead of {}", a.masked_select(wrong)[0].item<double>(),
                     b.masked_select(wrong)[0].item<double>());
}

at::Tensor as_reference(const at::Tensor& x) {
  if (!x.defined()) return x;
  at::Tensor dense = x.layout() == at::kStrided ? x.detach() : x.to_dense();
  dense = dense.resolve_neg().clone();
  return x.is_floating_point() ? dense.to(at::kDouble).requires_grad_(x.requires_grad()) : dense;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct Tried {
  Tensors outputs;
  std::string refused;  ///< the error
  std::string wrong;    ///< text of a wrong error
};

Tried try_call(const std::function<Tensors()>& call) {
  try {
    return {call(), {}, {}};
  } catch (const InputError& error) {
    return {{}, error.what(), fuzz::line_problem(error.what())};
  } catch (const c10::Error& error) {
    return {{}, first_line(error.what_without_backtrace()), {}};
  } catch (const std::exception& error) {
    return {{}, error.what(), fmt::format("an error that is neither weft's nor LibTorch's: {}", error.what())};
  }
}

/// Gradients of `inputs` from the outputs that have a graph in `ours`.
Tensors gradients_of(const Tensors& outputs, const std::vector<size_t>& which, const Tensors& inputs,
                     const Tensors& cotangents) {
  Tensors roots, seeds;
  for (size_t i = 0; i < which.size(); ++i) {
    if (!outputs[which[i]].requires_grad()) continue;
    roots.push_back(outputs[which[i]]);
    seeds.push_back(cotangents[i].to(roots.back().scalar_type()));
  }
  if (roots.empty()) return Tensors(inputs.size());
  return torch::autograd::grad(roots, inputs, seeds, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
}

bool has_graph(const at::Tensor& x) { return x.defined() && x.requires_grad() && !x.is_leaf(); }

std::string compare_backward(const Tensors& ours, const Tensors& theirs, const Tensors& args, const Tensors& exact_args,
                             Case& c, double tolerance) {
  std::vector<size_t> which;
  Tensors inputs, exact_inputs, cotangents;
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (!has_graph(theirs[i])) continue;
    if (!ours[i].requires_grad()) return fmt::format("output {} has no graph", i);
    which.push_back(i);
    cotangents.push_back(at::randn(theirs[i].sizes(), at::kDouble).to(ours[i].scalar_type()));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].defined() || !args[i].requires_grad()) continue;
    inputs.push_back(args[i]);
    exact_inputs.push_back(exact_args[i]);
  }
  if (which.empty() || inputs.empty()) return {};
  const Tried exact = try_call([&] { return gradients_of(theirs, which, exact_inputs, cotangents); });
  const Tried own = try_call([&] { return gradients_of(ours, which, inputs, cotangents); });
  if (!exact.refused.empty()) return own.refused.empty() ? "backward computes a gradient that the formula lacks" : "";
  if (!own.refused.empty()) return "backward: " + own.refused;
  for (size_t i = 0; i < inputs.size(); ++i) {
    at::Tensor gradient = own.outputs[i].defined() ? own.outputs[i] : c.held_gradient(inputs[i]);
    if (!gradient.defined()) gradient = at::zeros_like(inputs[i]);
    const at::Tensor expected = exact.outputs[i].defined() ? exact.outputs[i] : at::zeros_like(exact_inputs[i]);
    const std::string text = difference(gradient, expected, tolerance);
    if (!text.empty()) return fmt::format("gradient {}, of {}: {}", i, type_and_shape(inputs[i]), text);
  }
  return {};
}

/// The failure of a random call of a row; empty if it was properly refused or correct.
std::string try_row(const Row& row, unsigned seed) {
  at::manual_seed(seed);
  Case c(seed);
  test::Random random(seed * 31U + 7U);
  const Spec spec(row.spec);
  const Arguments arguments = make_arguments(spec, c, random);
  const Tensors& args = arguments.tensors;
  Tensors exact_args;
  std::string text = fmt::format("{}(", row.function);
  for (const at::Tensor& x : args) {
    exact_args.push_back(x.defined() && x.is_meta() ? x : as_reference(x));
    text += type_and_shape(x) + (x.defined() && x.is_meta() ? " meta" : "") + ", ";
  }
  text += fmt::format(") [{}]: ", arguments.changes);
  if (ftruncate(STDERR_FILENO, 0) == 0) lseek(STDERR_FILENO, 0, SEEK_SET);  // this call's output only, in case of a crash
  std::fprintf(stderr, "%s\n", text.c_str());
  const double tolerance = tolerance_of(args);
  std::optional<ForcedOperators> forced;
  if (row.on_device) forced.emplace();
  const Tried ours = try_call([&] { return row.ours(args, c); });
  if (!ours.wrong.empty()) return text + ours.wrong;
  if (!ours.refused.empty())
    return row.theirs && arguments.are_good && !c.is_odd() ? text + "refuses valid arguments: " + ours.refused : "";
  const bool is_meta = std::any_of(args.begin(), args.end(), [](const at::Tensor& x) { return x.defined() && x.is_meta(); });
  if (!row.theirs || is_meta) return {};
  Case again(seed);
  const Tried theirs = try_call([&] { return row.theirs(exact_args, again); });
  if (!theirs.refused.empty()) return text + "computes a call that the formula refuses: " + theirs.refused;
  if (ours.outputs.size() != theirs.outputs.size()) return text + "other outputs";
  for (size_t i = 0; i < ours.outputs.size(); ++i) {
    if (!ours.outputs[i].defined() && !theirs.outputs[i].defined()) continue;
    const std::string found = difference(ours.outputs[i], theirs.outputs[i], tolerance);
    if (!found.empty()) return fmt::format("{}output {} {}", text, i, found);
  }
  if (!spec.differentiable) return {};
  const std::string found = compare_backward(ours.outputs, theirs.outputs, args, exact_args, c, tolerance);
  return found.empty() ? found : text + found;
}

TEST(LayerFunctions, compute_the_formula_or_refuse) {
  const auto failures = fuzz::run_watched(test::seeds(test::fuzz_cases(10000)), [](unsigned seed) -> std::string {
    at::set_num_threads(1);  // a forked child has one thread
    const Row& row = table()[seed % table().size()];
    try {
      return try_row(row, seed);
    } catch (const c10::Error& error) {
      return fmt::format("{}: the test itself: {}", row.function, first_line(error.what_without_backtrace()));
    }
  });
  for (const fuzz::Failure& failure : failures) ADD_FAILURE() << failure.what << "\n" << test::replay(failure.seed);
}

/// Names of the functions that a header declares with tensor parameters.
void find_functions(const std::filesystem::path& header, std::set<std::string>& names) {
  std::ifstream file(header);
  std::stringstream all;
  for (std::string line; std::getline(file, line);) all << line.substr(0, line.find("//")) << '\n';
  static const std::regex declaration(R"(\n(?!using|struct|class|template)[A-Za-z][^\n;{}()=]* (\w+)\(([^;{}]*)\)\s*[;{])");
  static const std::regex tensors(R"(at::Tensor|Tensors|LayerInput|Parameter|Rotation|AttentionPiece|Normalised|NormedRows)");
  const std::string text = all.str();
  for (auto at = std::sregex_iterator(text.begin(), text.end(), declaration); at != std::sregex_iterator(); ++at) {
    const std::string parameters = (*at)[2];
    if (std::regex_search(parameters, tensors)) names.insert((*at)[1]);
  }
}

/// Functions without tensor arguments from the caller, and why.
const std::set<std::string> kElsewhere = {
    "run_in_evaluation",
    "run_backward_input",
    "module_block",  // take a module or a whole model
    "measure_cost",
    "measure_loss",  // measure a model on the meta device
    "flops_of",
    "convolution_flops",  // take a LibTorch call
    "set_values",
    "as_bytes",
    "values_of",  // take buffers of a model
    "type_and_shape",
    "value_of",
    "fused_attention",
    "note_host_values",
    "host_values",
    "noted_values",
    "attention_kernel",
    "has_fused_kernel",
    "groups_heads",
    "fused_head_width",
    "attend_fused",
    "has_packed_kernel",
    "attend_packed",
    "attend_backward_fused",
    "token_major_like",  // behind attention() and attend(), which check
    "has_elements",
    "has_device_kernel",
    "gives_norm_again",  // take any tensor
    "sums_in",
    "upload",  // numbers of weft's own
    "add_squares_of",
    "raise_to_largest",
    "carry_words",
    "put_losses",  // device kernels, behind functions that
    "clamp_ids",
    "spoil_losses",
    "step_numbers",
    "check_outputs",  // of a block, by measure_cost()
    "step_buffers",
    "add_squares_each",
    "trust_ratios",
    "bias_corrections_at",
    "factored_numbers_at",
    "subtract_scaled",
    "scale_parts",
    "drop_elements",
    "placed_dropout",  // behind dropout layers
    "placed_key",
    "draw_numbers",  // check
    "normalise_on_device",
    "normalise_again_on_device",
    "norm_gradients_on_device",
    "norm_gradients_and_y_on_device",
    "activate_on_device",
    "activation_gradients_on_device",
    "turn_on_device",
    "class_losses_on_device",
    "class_loss_gradient_on_device",  // the same
    "column_sums_into",
    "count_targets",
    "number_of",
    "values_per_channel",  // numbers of elements
    "each_tensor",         // a walk that computes nothing
    "cross_entropy_of_ids",
    "checked_logits",
    "vocabulary_targets",
    "vocabulary_loss",  // behind linear layers and losses
    "language_head",    // of normalise(), linear() and the losses
};

TEST(LayerFunctions, are_all_in_the_table) {
  std::set<std::string> names, rows;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(WEFT_SOURCE) + "/weft/nn")) {
    if (entry.path().extension() == ".h") find_functions(entry.path(), names);
  }
  for (const Row& row : table()) rows.insert(row.function);
  for (const std::string& name : names) EXPECT_TRUE(rows.contains(name) || kElsewhere.contains(name)) << name << " has no row";
  EXPECT_GE(names.size(), 70U);
}

}  // namespace
}  // namespace weft::fuzz_nn
