#include "weft/engine/finding.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "weft/comm/call/call.h"

namespace weft {

namespace {

/// Passes in the order in which a micro-batch goes through them.
int pass_order(const std::string& pass) {
  return pass == "forward" ? 0 : pass == "loss" ? 1 : pass == "recompute" || pass == "backward" ? 2 : 3;
}

std::string joined(const std::vector<TensorRange>& inputs) {
  std::string text;
  for (const TensorRange& input : inputs) text += (text.empty() ? "" : ", ") + range_text(input);
  return text;
}

}  // namespace

bool has_values(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0 || tensor.is_meta()) return false;
  if (tensor.layout() != at::kStrided || !tensor.has_storage() || tensor.element_size() < 2) return false;
  const auto needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size(),
                                                       static_cast<size_t>(tensor.storage_offset()));
  return tensor.storage().nbytes() >= needed;
}

TensorRange range_of(const at::Tensor& tensor, std::string name) {
  const c10::NoGradGuard no_grad;
  const at::Tensor values = tensor.detach();
  TensorRange range{
      .name = std::move(name), .type = std::string(dtype_name(values.scalar_type())), .shape = values.sizes().vec()};
  const auto ends = [](const at::Tensor& x) {
    const auto [least, greatest] = at::aminmax(x);
    return std::pair(least.item<double>(), greatest.item<double>());
  };
  std::tie(range.least, range.greatest) = ends(values);
  if (std::isfinite(range.least) && std::isfinite(range.greatest)) return range;
  const at::Tensor finite = values.isfinite();
  range.not_finite = values.numel() - finite.sum().item<int64_t>();
  range.has_nan = values.isnan().any().item<bool>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  range.least = ends(at::where(finite, values, at::full_like(values, kInfinity))).first;
  range.greatest = ends(at::where(finite, values, at::full_like(values, -kInfinity))).second;
  if (range.not_finite == values.numel()) range.least = range.greatest = 0.0;
  return range;
}

std::string range_text(const TensorRange& range) {
  std::string text = range.name.empty() ? "" : fmt::format("{} ", range.name);
  text += fmt::format("[{}] {} (", fmt::join(range.shape, ", "), range.type);
  int64_t numel = 1;
  for (const int64_t size : range.shape) numel *= size;
  if (range.not_finite == numel) return text + "no value finite)";
  text += fmt::format("least {:.4g}, greatest {:.4g}", range.least, range.greatest);
  return text + (range.not_finite > 0 ? fmt::format(", {} of {} not finite)", range.not_finite, numel) : ")");
}

bool came_before(const Finding& a, const Finding& b) {
  const auto key = [](const Finding& f) {
    const int pass = pass_order(f.pass);
    const int depth = pass == 2 ? -f.block_index : f.block_index;
    return std::tuple(f.kind == Finding::Kind::received, pass > 2, f.micro_batch, pass, depth, !f.is_owner,
                      f.kind == Finding::Kind::unseen, f.rank);
  };
  return key(a) < key(b);
}

namespace {

/// Most of the value is not finite: no sample is to blame.
bool is_of_all_samples(const Finding& f) {
  if (f.kind != Finding::Kind::unseen || f.inputs.empty() || f.inputs[0].shape.empty() || f.inputs[0].shape[0] < 2)
    return false;
  int64_t numel = 1;
  for (const int64_t size : f.inputs[0].shape) numel *= size;
  return f.inputs[0].not_finite > numel / 2;
}

}  // namespace

std::string finding_text(const Finding& f) {
  std::string text = f.place.empty() ? "" : fmt::format("rank {} ({}), ", f.rank, f.place);
  text += f.pass == "loss" ? "the loss" : fmt::format("block {}, {}", f.block, f.pass);
  if (f.micro_batch >= 0) text += fmt::format(" of micro-batch {}", f.micro_batch);
  const std::string what = joined(f.inputs);
  switch (f.kind) {
    case Finding::Kind::operation:
      text += fmt::format(": {} of {} made {}", f.operation, what.empty() ? "no tensor" : what, f.made);
      break;
    case Finding::Kind::unseen:
      text +=
          fmt::format(": {} in {}, made by a kernel after {}", f.made, what, f.operation.empty() ? "it began" : f.operation);
      break;
    case Finding::Kind::data:
      text += fmt::format(": the data itself has {}, in {}", f.made, what);
      break;
    case Finding::Kind::weight:
      text += fmt::format(": weight {} was not finite before the step", what);
      break;
    case Finding::Kind::received:
      text += fmt::format(": {} received from another rank", what);
      break;
  }
  if (f.kind == Finding::Kind::weight || is_of_all_samples(f)) return text;
  if (!f.sample_name.empty()) {
    text += ", in " + f.sample_name;
  } else if (f.sample >= 0) {
    text += fmt::format(", in the sample at position {} of the run", f.sample);
  }
  if (!f.element.empty()) text += fmt::format(", at [{}]", fmt::join(f.element, ", "));
  return text;
}

namespace {

constexpr const char* kFindingKinds[] = {"operation", "unseen", "data", "weight", "received"};

nlohmann::json json_of(const TensorRange& r) {
  return {{"name", r.name},      {"type", r.type},         {"shape", r.shape},
          {"least", r.least},    {"greatest", r.greatest}, {"not_finite", r.not_finite},
          {"has_nan", r.has_nan}};
}

}  // namespace

std::string finding_json(const Finding& f) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const TensorRange& range : f.inputs) inputs.push_back(json_of(range));
  return nlohmann::json{{"kind", kFindingKinds[static_cast<int>(f.kind)]},
                        {"pass", f.pass},
                        {"block", f.block},
                        {"block_index", f.block_index},
                        {"micro_batch", f.micro_batch},
                        {"operation", f.operation},
                        {"made", f.made},
                        {"inputs", inputs},
                        {"row", f.row},
                        {"position", f.sample},
                        {"sample", f.sample_name},
                        {"element", f.element},
                        {"is_owner", f.is_owner},
                        {"rank", f.rank},
                        {"place", f.place},
                        {"text", finding_text(f)}}
      .dump();
}

Finding parse_finding(const std::string& text) {
  const nlohmann::json j = nlohmann::json::parse(text);
  Finding f{.pass = j.at("pass"),
            .block = j.at("block"),
            .block_index = j.at("block_index"),
            .micro_batch = j.at("micro_batch"),
            .operation = j.at("operation"),
            .made = j.at("made"),
            .row = j.at("row"),
            .sample = j.at("position"),
            .sample_name = j.at("sample"),
            .element = j.at("element"),
            .is_owner = j.at("is_owner"),
            .rank = j.at("rank"),
            .place = j.at("place")};
  for (int kind = 0; kind < 5; ++kind) {
    if (j.at("kind") == kFindingKinds[kind]) f.kind = static_cast<Finding::Kind>(kind);
  }
  for (const nlohmann::json& r : j.at("inputs")) {
    f.inputs.push_back({.name = r.at("name"),
                        .type = r.at("type"),
                        .shape = r.at("shape"),
                        .least = r.at("least"),
                        .greatest = r.at("greatest"),
                        .not_finite = r.at("not_finite"),
                        .has_nan = r.at("has_nan")});
  }
  return f;
}

BadStep::BadStep(int64_t step, const std::string& what, std::vector<Finding> findings, const std::string& more)
    : NumericError(what + (findings.empty() ? "" : "; first not finite: " + finding_text(findings.front())) + more),
      step_(step),
      wrong_(what),
      findings_(std::move(findings)) {}

}  // namespace weft
