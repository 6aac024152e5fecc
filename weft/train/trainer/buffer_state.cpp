#include "weft/train/trainer/buffer_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/math.h"
#include "weft/checkpoint/format/saved_checkpoint.h"

namespace weft {
namespace {

/// Describes how the checkpoint's buffer differs; empty if it matches.
std::string misfit_of_buffer(const ModelBuffer& buffer, const CheckpointIndex& index) {
  const std::string name = model_state_name(buffer.name);
  const auto found = index.tensors.find(name);
  if (found == index.tensors.end()) return fmt::format("tensor '{}' is not in the checkpoint", name);
  const StoredState& stored = found->second;
  if (stored.shape == buffer.shape && stored.type == buffer.type) return {};
  return fmt::format("tensor '{}' is {} [{}] in the checkpoint, {} [{}] in the model", name, c10::toString(stored.type),
                     fmt::join(stored.shape, ", "), c10::toString(buffer.type), fmt::join(buffer.shape, ", "));
}

}  // namespace

void for_each_written_buffer(const FlatModel& model, const WriteShare& share,
                             const std::function<void(const StatePart&)>& visit) {
  const int64_t shards = model.options().num_shards, writers = shards * share.replicas * share.tps;
  const int64_t writer = (int64_t{share.replica} * shards + model.options().shard) * share.tps + share.tp;
  for (const ModelBuffer& buffer : model.buffers()) {
    if (!buffer.saved || !model.owns(buffer.block) || model.is_tied_copy(buffer.block)) continue;
    StatePart part = whole_part(model_state_name(buffer.name), values_of(buffer));
    const int64_t each = round_up(ceil_divide(part.whole_numel(), writers), kAlignElements);
    part.runs = clip_runs(part.runs, each * writer, each * (writer + 1));
    visit(part);
  }
}

BufferMisfits buffer_misfits(const FlatModel& model, const CheckpointIndex& index) {
  const bool is_older = index.texts.count(kBuffersEntry) == 0;
  BufferMisfits misfits;
  for (const ModelBuffer& buffer : model.buffers()) {
    if (!buffer.saved) continue;
    std::string line = misfit_of_buffer(buffer, index);
    if (line.empty()) continue;
    if (is_older && buffer.type != at::kFloat && index.tensors.count(model_state_name(buffer.name)) == 0) {
      misfits.older.push_back(buffer.name);
    } else {
      misfits.lines.push_back(std::move(line));
    }
  }
  return misfits;
}

std::string buffers_text(const FlatModel& model) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (const ModelBuffer& buffer : model.buffers()) {
    if (buffer.saved) kinds[buffer.name] = buffer.counts ? kCountBuffer : kConstantBuffer;
  }
  return kinds.dump();
}

void fill_buffers(const FlatModel& model, const CheckpointIndex& index, DataReader& reader) {
  for (const ModelBuffer& buffer : model.buffers()) {
    if (!buffer.saved || !model.holds(buffer.block) || !misfit_of_buffer(buffer, index).empty()) continue;
    const at::Tensor values = values_of(buffer);
    reader.read(whole_part(model_state_name(buffer.name), values));
    set_values(buffer, values);
  }
}

}  // namespace weft
