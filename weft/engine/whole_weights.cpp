#include "weft/engine/whole_weights.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "weft/engine/memory_ledger.h"

namespace weft {

WholeWeights::WholeWeights(FlatModel& model, const Program& program, const EngineOptions& options)
    : model_(model),
      shards_(options.shards),
      inner_(options.inner),
      tier_(options.tiers.weights),
      changed_(program.num_blocks(), true) {
  if (!tier_) return;
  for (int b = 0; b < program.num_blocks(); ++b) {
    places_.push_back(tier_->reserve(model.flat(b).num_owned() * static_cast<int64_t>(sizeof(float))));
  }
  away_.assign(places_.size(), false);
}

// Filled behind the version counters: the graph may hold views of them from forward to backward.
Work WholeWeights::gather(int block) {
  const FlatBlock& flat = model_.flat(block);
  return shards_.all_gather(flat.weights.variable_data(), flat.shard, "weights of " + model_.model().blocks[block].name);
}

void WholeWeights::keep_part(int block) {
  c10::NoGradGuard no_grad;
  model_.flat(block).inner.copy_(model_.inner_part(block));
}

Work WholeWeights::gather_inner(int block) {
  const FlatBlock& flat = model_.flat(block);
  return inner_.all_gather(flat.weights.variable_data(), flat.inner, "weights of " + model_.model().blocks[block].name);
}

void WholeWeights::evict(int block) {
  FlatBlock& flat = model_.flat(block);
  if (changed_[block]) tier_->put(places_[block], flat.master);
  changed_[block] = false;
  flat.master.reset();
  flat.shard.reset();
  away_[block] = true;
}

void WholeWeights::fetch(int block) {
  FlatBlock& flat = model_.flat(block);
  const auto options = at::TensorOptions(at::kFloat).device(flat.weights.device());
  const bool same = model_.options().weight_dtype == at::kFloat;
  const MemoryScope scope(same ? Category::weights : Category::master);
  flat.master = at::empty({flat.num_owned()}, options);
  tier_->get(places_[block], flat.master);
  const MemoryScope narrow(Category::weights);
  flat.shard = same ? flat.master : flat.master.to(model_.options().weight_dtype);
  away_[block] = false;
}

}  // namespace weft
