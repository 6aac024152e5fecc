#include "weft/exported/operator_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "weft/base/error.h"

namespace weft {
namespace {

/// Private operators that functions of PyTorch's interface call, and which check their arguments.
constexpr std::array kChecked = {"_convolution",
                                 "_log_softmax",
                                 "_safe_softmax",
                                 "_shape_as_tensor",
                                 "_softmax",
                                 "_to_copy",
                                 "_trilinear",
                                 "_unsafe_view",
                                 "_upsample_bicubic2d_aa",
                                 "_upsample_bilinear2d_aa",
                                 "_upsample_nearest_exact1d",
                                 "_upsample_nearest_exact2d",
                                 "_upsample_nearest_exact3d",
                                 "_weight_norm"};

/// Beginnings of operators that see a tensor's storage, not its values: what they return depends on the layout, or is other
/// memory. With as_strided(), a parameter would show those that lie beside it.
constexpr std::array kOfStorage = {"align_",    "as_strided", "data",          "from_file",         "is_pinned",
                                   "lift",      "pin_memory", "record_stream", "refine_names",      "rename",
                                   "resize",    "set",        "slice_inverse", "sym_is_contiguous", "sym_storage_offset",
                                   "sym_stride"};

/// Beginnings of operators on other formats than dense tensors, whose contents nothing has checked.
constexpr std::array kOfFormats = {
    "ccol_indices", "choose_qparams",  "coalesce", "col_indices",  "copy_sparse", "crow_indices", "cudnn_",
    "dequantize",   "empty_quantized", "fbgemm_",  "fused_moving", "hspmm",       "indices",      "int_repr",
    "miopen_",      "mkldnn_",         "nested_",  "q_",           "qscheme",     "quantize",     "row_indices",
    "smm",          "sparse_",         "sspaddmm", "to_mkldnn",    "to_padded",   "to_sparse",    "unflatten_dense",
    "values"};

/// Parts of operators, which others call with arguments that fit: indices, pivots, statistics, paddings; and operators that
/// crash, or loop as often as an argument says.
constexpr std::array kParts = {"batch_norm_",
                               "conv_depthwise3d",
                               "convolution_overrideable",
                               "fractional_max_pool",
                               "glu_jvp",
                               "linalg_ldl_solve",
                               "linalg_lu_solve",
                               "lu_solve",
                               "lu_unpack",
                               "native_",
                               "pdist",
                               "range",
                               "reflection_pad",
                               "replication_pad",
                               "segment_reduce",
                               "slow_conv",
                               "special_chebyshev_",
                               "special_hermite_",
                               "special_laguerre_",
                               "special_legendre_",
                               "special_shifted_",
                               "thnn_",
                               "unsafe_"};

constexpr const char* kUnchecked =
    "a private operator of LibTorch, which does not check what it is given; export the module that calls it, without "
    "decompositions";

template <class Names>
bool begins(const Names& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(), [&](const char* each) { return name.starts_with(each); });
}

std::string_view plain_name(const c10::OperatorHandle& handle) {
  const std::string_view name = handle.operator_name().name;
  return name.substr(std::min(name.find("::") + 2, name.size()));
}

/// Of lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), gru and rnn, whose kernels
/// for the CPU read as much as the sizes of some arguments say of the others.
template <int64_t gates>
void check_recurrent(const std::vector<c10::IValue>& in) {
  const at::Tensor& input = in[0].toTensor();
  const std::vector<at::Tensor> states = in[1].isTensor() ? std::vector<at::Tensor>{in[1].toTensor()} : in[1].toTensorVector();
  const std::vector<at::Tensor> params = in[2].toTensorVector();
  const int64_t layers = in[4].toInt(), directions = in[7].toBool() ? 2 : 1, samples = in[8].toBool() ? 0 : 1;
  const bool is_lstm = gates == 4;
  const auto fits = [&](const at::Tensor& x, const std::vector<int64_t>& shape) {
    return x.sizes() == at::IntArrayRef(shape) && x.scalar_type() == input.scalar_type();
  };
  const auto has_dims = [](const at::Tensor& x) { return x.dim() == 3; };
  bool fit = states.size() == (is_lstm ? 2 : 1) && has_dims(input) && input.is_floating_point() &&
             std::all_of(states.begin(), states.end(), has_dims) && layers > 0 && layers <= std::ssize(params);
  if (fit) {
    const int64_t out = states.front().size(2), hidden = states.back().size(2), rows = gates * hidden;
    std::vector<std::vector<int64_t>> shapes;
    for (int64_t l = 0; l < layers; ++l) {
      for (int64_t d = 0; d < directions; ++d) {
        shapes.insert(shapes.end(), {{rows, l == 0 ? input.size(2) : directions * out}, {rows, out}});
        if (in[3].toBool()) shapes.insert(shapes.end(), {{rows}, {rows}});
        if (hidden != out) shapes.push_back({out, hidden});
      }
    }
    fit = shapes.size() == params.size() && std::equal(params.begin(), params.end(), shapes.begin(), fits);
    for (const at::Tensor& x : states) fit &= fits(x, {layers * directions, input.size(samples), x.size(2)});
  }
  if (!fit) throw InputError("its input, states and weights do not fit each other, its layers and directions");
}

void check_weight_norm(const std::vector<c10::IValue>& in) {
  const at::Tensor &v = in[0].toTensor(), &g = in[1].toTensor();
  const int64_t dim = in[2].toInt(), wanted = dim == -1 ? 1 : v.size(dim);
  if (g.numel() != wanted || g.scalar_type() != v.scalar_type())
    throw InputError(fmt::format("it has {} norms of {} rows", g.numel(), wanted));
}

template <int64_t most>
void check_count(const std::vector<c10::IValue>& in) {
  if (in[1].isInt() && (in[1].toInt() > most || in[1].toInt() < -most))
    throw InputError(fmt::format("its argument {} is above {}", in[1].toInt(), most));
}

constexpr int64_t kMostParts = 1 << 16;

[[noreturn]] void refuse_parts(int64_t parts) {
  throw InputError(fmt::format("it would make {} parts; weft makes at most {}", parts, kMostParts));
}

/// Of unbind(self, dim); a view has as many parts as it is told, without memory of its own.
void check_unbind(const std::vector<c10::IValue>& in) {
  const int64_t parts = in[0].toTensor().size(in[1].toInt());
  if (parts > kMostParts) refuse_parts(parts);
}

/// Of split(self, size or sizes, dim).
void check_split(const std::vector<c10::IValue>& in) {
  const int64_t size = in[0].toTensor().size(in[2].toInt());
  const int64_t parts = in[1].isInt() ? size / std::max<int64_t>(1, in[1].toInt()) : std::ssize(in[1].toIntVector());
  if (parts > kMostParts) refuse_parts(parts);
}

/// Of tensor_split(self, sections or indices, dim), which a tensor may give too.
void check_tensor_split(const std::vector<c10::IValue>& in) {
  check_count<kMostParts>(in);
  if (!in[1].isTensor() || in[1].toTensor().is_meta()) return;
  const at::Tensor& given = in[1].toTensor();
  if (given.numel() > kMostParts) refuse_parts(given.numel());
  if (given.dim() == 0 && given.scalar_type() == at::kLong) check_count<kMostParts>({in[0], given.item<int64_t>()});
}

bool has_out(const c10::OperatorHandle& handle) {
  const auto& all = handle.schema().arguments();
  return std::any_of(all.begin(), all.end(), [](const c10::Argument& argument) { return argument.is_out(); });
}

}  // namespace

std::string refused_because(const c10::OperatorHandle& handle) {
  const std::string_view name = plain_name(handle);
  const bool is_private =
      (name.starts_with('_') && !name.starts_with("__")) || name.find("_backward") != std::string_view::npos;
  const bool is_checked = std::find(kChecked.begin(), kChecked.end(), name) != kChecked.end();
  if (has_out(handle)) return "it writes its result into a tensor that it is given; export a forward without out=";
  const bool is_packed = handle.operator_name().overload_name == "data";  // of lstm, gru, rnn
  if ((is_private && !is_checked) || begins(kParts, name) || is_packed) return kUnchecked;
  const bool is_new = name == "lift_fresh" || name == "lift_fresh_copy";
  if (begins(kOfStorage, name) && !is_new)
    return "it reads or changes what tensors are stored in, or a file; export a forward on tensors' values (views, unfold)";
  if (begins(kOfFormats, name))
    return "only dense tensors are trained; export a forward without sparse, quantized or packed ones";
  return {};
}

CallCheck check_of(const c10::OperatorHandle& handle) {
  static const std::map<std::string_view, CallCheck> checks = {{"lstm", check_recurrent<4>},
                                                               {"gru", check_recurrent<3>},
                                                               {"rnn_tanh", check_recurrent<1>},
                                                               {"rnn_relu", check_recurrent<1>},
                                                               {"_weight_norm", check_weight_norm},
                                                               {"chunk", check_count<kMostParts>},
                                                               {"tensor_split", check_tensor_split},
                                                               {"split", check_split},
                                                               {"split_copy", check_split},
                                                               {"unsafe_split", check_split},
                                                               {"unbind", check_unbind},
                                                               {"unbind_copy", check_unbind},
                                                               {"unsafe_chunk", check_count<kMostParts>},
                                                               {"hsplit", check_count<kMostParts>},
                                                               {"vsplit", check_count<kMostParts>},
                                                               {"dsplit", check_count<kMostParts>},
                                                               {"matrix_power", check_count<kMostParts>},
                                                               {"linalg_matrix_power", check_count<kMostParts>}};
  const auto found = checks.find(plain_name(handle));
  return found == checks.end() ? nullptr : found->second;
}

bool leaves_memory_unset(const c10::OperatorHandle& handle) {
  const std::string_view name = plain_name(handle);
  return name.starts_with("empty") || name.starts_with("new_empty");
}

}  // namespace weft
