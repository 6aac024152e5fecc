#include "weft/nn/id_checks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/max.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/operators_path.h"

namespace weft {

namespace {

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

}  // namespace

IdChecks::Scope::Scope(IdChecks& checks, const Context& context, std::string_view caller)
    : checks_(checks), context_(context), caller_(caller), before_(std::exchange(current_scope, this)) {}
IdChecks::Scope::~Scope() { current_scope = before_; }

IdChecks::Repeated::Repeated() : before_(std::exchange(is_repeated, true)) {}
IdChecks::Repeated::~Repeated() { is_repeated = before_; }

void IdChecks::refuse_wrong(const Note& note, int64_t position, int64_t id) {
  if ((id >= 0 && id < note.count) || id == note.ignored) return;
  throw InputError(
      fmt::format("{}{} {} at {} is out of range: it must be in [0, {}); check the data, or the model's vocabulary", note.where,
                  note.what, id, place_text(position, note.sizes), note.count));
}

void IdChecks::mark(const at::Tensor& values) const {
  if (notes_.empty()) return;
  std::vector<at::Tensor> found;
  found.reserve(notes_.size());
  for (const Note& note : notes_) found.push_back(note.found);
  values.masked_fill_(at::cat(found).any(), std::numeric_limits<double>::quiet_NaN());
}

/// Positions and ids of all notes, in turn.
at::Tensor IdChecks::taken() const {
  std::vector<at::Tensor> parts;
  parts.reserve(2 * notes_.size());
  for (const Note& note : notes_) parts.insert(parts.end(), {note.position, note.id});
  return at::cat(parts);
}

void IdChecks::judge(const at::Tensor& on_host) {
  const std::vector<Note> notes = std::exchange(notes_, {});
  const auto* numbers = on_host.const_data_ptr<int64_t>();
  for (size_t i = 0; i < notes.size(); ++i) refuse_wrong(notes[i], numbers[2 * i], numbers[2 * i + 1]);
}

/// The bits of float64 travel as int64.
at::Tensor IdChecks::to_host(const at::Tensor& values) {
  if (notes_.empty()) return values.cpu();
  if (values.device() != notes_.front().id.device()) {
    read();
    return values.cpu();
  }
  const at::Tensor all = at::cat({values.flatten().view(at::kLong), taken()}).cpu();
  const int64_t numel = values.numel();
  judge(all.narrow(0, numel, all.numel() - numel));
  return all.narrow(0, 0, numel).view(at::kDouble).view(values.sizes());
}

double IdChecks::number(const at::Tensor& value) {
  return notes_.empty() ? value.item<double>() : to_host(value.detach().to(at::kDouble)).item<double>();
}

void IdChecks::read() {
  if (!notes_.empty()) judge(taken().cpu());
}

at::Tensor checked_ids(std::string_view what, const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored) {
  if (ids.is_meta() || (ids.is_cpu() && !forces_operators()) || ids.numel() == 0) return ids;
  at::Tensor safe = at::clamp(ids, 0, count - 1);
  if (ignored) safe.masked_fill_(ids.eq(*ignored), *ignored);
  if (is_repeated) return safe;
  auto [found, position] = at::max(safe.ne(ids).flatten(), 0, /*keepdim=*/true);  // the first, of equal ones
  at::Tensor id = ids.flatten().index_select(0, position).to(at::kLong);
  const IdChecks::Scope* scope = current_scope;
  IdChecks::Note note{.found = std::move(found),
                      .position = std::move(position),
                      .id = std::move(id),
                      .where = scope ? where_text(scope->context_, scope->caller_) : "",
                      .what = std::string(what),
                      .sizes = ids.sizes().vec(),
                      .count = count,
                      .ignored = ignored};
  if (scope) {
    scope->checks_.notes_.push_back(std::move(note));
  } else {
    IdChecks::refuse_wrong(note, note.position.item<int64_t>(), note.id.item<int64_t>());
  }
  return safe;
}

}  // namespace weft
