#include "weft/nn/id_checks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/nn/device_kernels/element_functions.h"
#include "weft/nn/operators_path.h"
#include "weft/nn/target_scope.h"

namespace weft {

namespace {

constexpr int64_t kNotes = 32;  // that one tensor has room for

thread_local IdChecks::Scope* current_scope = nullptr;
thread_local bool is_repeated = false;

/// "[1, 5]" for the sixth of the second row of eight.
std::string place_text(int64_t position, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> place(sizes.size());
  for (size_t i = sizes.size(); i-- > 0; position /= sizes[i]) place[i] = position % sizes[i];
  return fmt::format("[{}]", fmt::join(place, ", "));
}

std::string where_text(const Context& context, std::string_view caller) {
  const int64_t first = context.first_sample;
  if (context.training) return fmt::format("step {}, samples from {}: {}: ", context.step + 1, first, caller);
  return fmt::format("evaluation after step {}, samples from {}: {}: ", context.step, first, caller);
}

/// Throws for an id that `found` [2] notes.
void refuse_wrong(std::string_view where, std::string_view what, const std::vector<int64_t>& sizes, int64_t count,
                  const int64_t* found) {
  if (found[0] == kNoId) return;
  const auto half = [](int64_t noted) { return static_cast<uint64_t>(noted) & 0xffffffff; };
  throw InputError(
      fmt::format("{}{} {} at {} is out of range: it must be in [0, {}); check the data, or the model's vocabulary", where,
                  what, static_cast<int64_t>(half(found[1]) << 32 | half(found[0])), place_text(found[0] >> 32, sizes), count));
}

at::Tensor no_ids(int64_t count, at::Device device) {
  return at::full({count, 2}, kNoId, at::TensorOptions(at::kLong).device(device));
}

}  // namespace

IdChecks::Scope::Scope(IdChecks& checks, const Context& context, std::string_view caller)
    : checks_(checks), context_(context), caller_(caller), before_(std::exchange(current_scope, this)) {}
IdChecks::Scope::~Scope() { current_scope = before_; }

IdChecks::Repeated::Repeated() : before_(std::exchange(is_repeated, true)) {}
IdChecks::Repeated::~Repeated() { is_repeated = before_; }

/// Where the device notes the first id out of range.
at::Tensor IdChecks::place_for(Note note, at::Device device) {
  const auto place = static_cast<int64_t>(notes_.size());
  if (place % kNotes == 0) found_.push_back(no_ids(kNotes, device));
  notes_.push_back(std::move(note));
  return found_.back()[place % kNotes];
}

void IdChecks::mark(const at::Tensor& values) const {
  for (const at::Tensor& found : found_) spoil_losses(values, found);
}

void IdChecks::clear() {
  notes_.clear();
  found_.clear();
}

void IdChecks::judge(const int64_t* found) {
  const std::vector<Note> notes = std::exchange(notes_, {});
  clear();
  for (const Note& note : notes) {
    refuse_wrong(note.where, note.what, note.sizes, note.count, found);
    found += 2;
  }
}

at::Tensor IdChecks::to_host(std::vector<at::Tensor> values) {
  int64_t numel = 0;
  for (at::Tensor& each : values) {
    each = each.flatten();
    numel += each.numel();
  }
  const bool together = !found_.empty() && values.front().device() == found_.front().device();
  for (size_t i = 0; i < found_.size() && together; ++i) {
    const int64_t noted = std::min<int64_t>(kNotes, static_cast<int64_t>(notes_.size()) - static_cast<int64_t>(i) * kNotes);
    values.push_back(found_[i].narrow(0, 0, noted).flatten());
  }
  const at::Tensor all = (values.size() == 1 ? values.front() : at::cat(values)).cpu();
  if (together) judge(all.const_data_ptr<int64_t>() + numel);
  read();
  return all.narrow(0, 0, numel);
}

double IdChecks::number(const at::Tensor& value) {
  if (notes_.empty()) return value.item<double>();
  return to_host({value.detach().to(at::kDouble).view(at::kLong)}).view(at::kDouble).item<double>();
}

void IdChecks::read() {
  if (!notes_.empty()) judge(at::cat(found_).cpu().const_data_ptr<int64_t>());
}

at::Tensor checked_ids(std::string_view what, const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored) {
  if ((ids.is_cpu() && !forces_operators()) || ids.numel() == 0) return ids;
  if (ids.is_meta()) return target_of(ids.device()) == TargetDevice::gpu ? clamp_ids(ids, count, ignored, ids) : ids;
  if (is_repeated) return clamp_ids(ids, count, ignored, at::empty({2}, ids.options().dtype(at::kLong)));
  const IdChecks::Scope* scope = current_scope;
  if (scope) {
    IdChecks::Note note{.where = where_text(scope->context_, scope->caller_),
                        .what = std::string(what),
                        .sizes = ids.sizes().vec(),
                        .count = count};
    return clamp_ids(ids, count, ignored, scope->checks_.place_for(std::move(note), ids.device()));
  }
  const at::Tensor found = no_ids(1, ids.device());
  at::Tensor safe = clamp_ids(ids, count, ignored, found[0]);
  refuse_wrong("", what, ids.sizes().vec(), count, found.cpu().const_data_ptr<int64_t>());
  return safe;
}

}  // namespace weft
