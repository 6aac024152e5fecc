#include "weft/nn/flat/flat_uses.h"

#include <c10/core/GradMode.h>

#include <utility>

namespace weft {

/// `owned` is the memory of all owned sums, if they have separate memory.
void FlatModel::take_uses(int block, const at::Tensor& owned) {
  if (options_.users.empty() || options_.users[block].empty()) return;
  FlatBlock& flat = flat_[block];
  const std::vector<int>& users = options_.users[block];
  flat.first_user = users.front();
  for (int i = 1; i < static_cast<int>(users.size()) && flat.numel > 0; ++i) {
    UseSum use;
    use.user = users[i];
    use.gradients = flat.all_gradients.narrow(0, i * flat.numel, flat.numel);
    use.owned = owned.defined() ? owned.narrow(0, i * flat.num_owned(), flat.num_owned())
                                : use.gradients.narrow(0, flat.owned.begin, flat.num_owned());
    uses_of_[use.user].emplace_back(block, i - 1);
    flat.uses.push_back(std::move(use));
  }
}

void FlatModel::bind_uses(int block) {
  FlatBlock& flat = flat_[block];
  for (UseSum& use : flat.uses) {
    for (const int index : flat.params) {
      const Param& param = params_[index];
      if (!is_trained(param.group)) continue;
      use.places.push_back(param.own_in(use.gradients.narrow(0, param.offset, param.numel)));
    }
    use.gathered.resize(use.places.size());
  }
}

void FlatModel::swap_use_gradients(int user) {
  const auto uses = uses_of_.find(user);
  if (uses == uses_of_.end()) return;
  for (const auto& [block, place] : uses->second) {
    FlatBlock& flat = flat_[block];
    UseSum& use = flat.uses[place];
    std::swap(flat.gradients, use.gradients);
    std::swap(flat.gradients_empty, use.empty);
    size_t i = 0;
    for (const int index : flat.params) {
      if (!is_trained(params_[index].group)) continue;
      Parameter& parameter = *params_[index].parameter;
      std::swap(parameter.gradient, use.places[i]);
      std::swap(parameter.value.mutable_grad(), use.gathered[i]);
      ++i;
    }
  }
}

/// With three or more uses, the first is added to zero, as when ranks hold rows of uses (program/ties.h).
void FlatModel::join_uses(int block) {
  c10::NoGradGuard no_grad;
  FlatBlock& flat = flat_[block];
  if (flat.uses.size() > 1) flat.owned_gradients.add_(0.0);
  for (const UseSum& use : flat.uses) flat.owned_gradients.add_(use.owned);
}

int64_t FlatModel::gradients_numel() const {
  const int last = num_blocks() - 1;
  return offsets_[last] + flat_[last].numel * num_sums(last);
}

}  // namespace weft
