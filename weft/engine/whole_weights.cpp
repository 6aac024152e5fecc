#include "weft/engine/whole_weights.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <utility>

#include "weft/engine/memory_ledger.h"

namespace weft {

namespace {

/// The gathers of both parts of a block, as one work.
class Both : public Work::State {
 public:
  Both(Work first, Work second) : first_(std::move(first)), second_(std::move(second)) {}
  void wait() override {
    first_.wait();
    second_.wait();
  }

 private:
  Work first_, second_;
};

}  // namespace

WholeWeights::WholeWeights(FlatModel& model, const Program& program, const EngineOptions& options)
    : model_(model),
      shards_(options.groups.along(kShardAxis)),
      inner_(options.groups.along(kInnerAxis)),
      store_(options.offload.weights) {
  if (!store_) return;
  rooms_.resize(program.num_blocks());
  for (int b = 0; b < program.num_blocks(); ++b) {
    for (size_t p = 0; p < rooms_[b].size(); ++p) {
      const int64_t numel = model.flat(b).parts()[p]->num_owned();
      if (numel > 0) rooms_[b][p].number = store_->reserve(numel * static_cast<int64_t>(sizeof(float)));
    }
  }
  away_.assign(rooms_.size(), false);
}

Work WholeWeights::gather_parts(int block, const std::function<Work(const FlatPart&, const std::string& what)>& gather) const {
  const std::string what = "weights of " + model_.model().blocks[block].name;
  const FlatBlock& flat = model_.flat(block);
  Work trained, frozen;
  if (flat.numel > 0) trained = gather(flat, what);
  if (flat.frozen.numel > 0) frozen = gather(flat.frozen, "frozen " + what);
  if (trained.empty()) return frozen;
  return frozen.empty() ? trained : Work(std::make_shared<Both>(std::move(trained), std::move(frozen)));
}

// Bypasses the version counters, as everything that fills the weights does: the graph may hold views of them.
Tensors WholeWeights::whole(int block) const {
  Tensors tensors;
  for (const FlatPart* part : model_.flat(block).parts()) {
    if (part->numel > 0) tensors.push_back(part->weights.variable_data());
  }
  return tensors;
}

Work WholeWeights::gather(int block) {
  if (model_.options().separate_shard) return gather_all(block);
  const FlatBlock& flat = model_.flat(block);
  return shards_.all_gather(flat.weights.variable_data(), flat.shard, "weights of " + model_.model().blocks[block].name);
}

// Bypasses the version counters: the graph may hold views of the weights from forward to backward.
Work WholeWeights::gather_all(int block) {
  return gather_parts(block, [this](const FlatPart& part, const std::string& what) {
    return shards_.all_gather(part.weights.variable_data(), part.shard, what);
  });
}

void WholeWeights::keep_inner_shard(int block) {
  c10::NoGradGuard no_grad;
  for (const FlatPart* part : model_.flat(block).parts()) part->inner.copy_(model_.inner_part(*part));
}

Work WholeWeights::gather_inner(int block) {
  return gather_parts(block, [this](const FlatPart& part, const std::string& what) {
    return inner_.all_gather(part.weights.variable_data(), part.inner, what);
  });
}

void WholeWeights::mark_changed(int block) {
  if (store_) rooms_[block][0].changed = true;
}

void WholeWeights::mark_all_changed(int block) {
  if (!store_) return;
  for (Room& room : rooms_[block]) room.changed = true;
}

void WholeWeights::offload(int block) {
  for (size_t p = 0; p < rooms_[block].size(); ++p) {
    const FlatPart& part = *model_.flat(block).parts()[p];
    Room& room = rooms_[block][p];
    if (room.changed && part.num_owned() > 0) store_->put(room.number, part.master);
    room.changed = false;
  }
  drop(block);
}

void WholeWeights::drop(int block) {
  away_[block] = true;
  for (FlatPart* part : model_.flat(block).parts()) {
    store_->retire(std::exchange(part->shard, {}));
    store_->retire(std::exchange(part->master, {}));
  }
}

Work WholeWeights::reload(int block) {
  store_->recycle();
  {
    const c10::OptionalStreamGuard arriving(store_->arrivals());
    for (size_t p = 0; p < rooms_[block].size(); ++p) reload(*model_.flat(block).parts()[p], rooms_[block][p]);
  }
  away_[block] = false;
  return store_->arrived();
}

void WholeWeights::reload(FlatPart& part, const Room& room) {
  const auto options = at::TensorOptions(at::kFloat).device(part.weights.device());
  const bool same = model_.options().weight_dtype == at::kFloat;
  const MemoryScope scope(same ? MemoryCategory::weights : MemoryCategory::master);
  part.master = at::empty({part.num_owned()}, options);
  if (part.num_owned() > 0) store_->get(room.number, part.master);
  const MemoryScope narrow(MemoryCategory::weights);
  part.shard = same ? part.master : part.master.to(model_.options().weight_dtype);
}

}  // namespace weft
