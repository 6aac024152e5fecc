#include "weft/comm/shm/buffers.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "weft/base/error.h"

namespace weft::shm {

Buffers::Buffers(Members& members, Barrier& barrier, std::shared_ptr<Mapping> control)
    : members_(members), barrier_(barrier), control_(std::move(control)) {}

at::Tensor Buffers::allocate(const Call& call) {
  const size_t bytes = std::max<size_t>(call.numel * c10::elementSize(call.dtype), 1);
  CallRecord& own = barrier_.open(call);
  try {
    FileDescriptor memory = create_memory(members_.group(), bytes);
    own.pid = ::getpid();
    own.fd = memory.get();
    // A tensor may be released at any moment, so one rank picks the unused number for all.
    if (members_.rank() == 0) own.buffer = unused_number();
    barrier_.begin(call);
    sweep();
    const int32_t number = barrier_.record(0).buffer;
    map_parts(number, std::move(memory), bytes);
    members_.control().buffer_users[number].fetch_add(1);
    barrier_.meet(call);  // every rank has mapped every part and is counted as a user
    return make_tensor(number, call);
  } catch (const CommError& error) {
    members_.throw_if_failed();
    const Axis& axis = members_.axis();
    members_.fail(axis.ranks[axis.index],
                  fmt::format("{} in {}: {}", rank_name(axis, axis.index), describe(call), error.what()));
  }
}

int32_t Buffers::unused_number() const {
  for (int32_t number = 0; number < kMaxBuffers; ++number) {
    if (members_.control().buffer_users[number].load() == 0) return number;
  }
  throw CommError(fmt::format("{} registered buffers are alive; make fewer, larger ones", kMaxBuffers));
}

void Buffers::map_parts(int32_t number, FileDescriptor own, size_t bytes) {
  std::vector<std::shared_ptr<Mapping>> views;
  for (int rank = 0; rank < members_.size(); ++rank) {
    const CallRecord& peer = barrier_.record(rank);
    if (rank == members_.rank()) {
      views.push_back(std::make_shared<Mapping>(own, bytes));
    } else {
      views.push_back(std::make_shared<Mapping>(open_peer_memory(peer.pid, peer.fd), bytes));
    }
  }
  if (static_cast<size_t>(number) >= buffers_.size()) buffers_.resize(number + 1);
  // A faster peer has already counted itself as a user of this number, so sweep() may have skipped its old views.
  unmap(number);
  by_address_[views[members_.rank()]->data()] = number;
  buffers_[number].views = std::move(views);
  // The files may be closed only after the peers have opened them.
  closing_.push_back(std::move(own));
}

at::Tensor Buffers::make_tensor(int32_t number, const Call& call) {
  closing_.clear();
  std::shared_ptr<Mapping> view = buffers_[number].views[members_.rank()];
  // May run after the group is gone, on any thread, so it owns everything it touches.
  const auto release = [view, control = control_, users = &members_.control().buffer_users[number]](void*) {
    view->discard();
    users->fetch_sub(1);
  };
  return at::from_blob(view->data(), {call.numel}, release, at::TensorOptions().dtype(call.dtype));
}

// Unmaps buffers without a live tensor on any rank.
void Buffers::sweep() {
  for (size_t number = 0; number < buffers_.size(); ++number) {
    if (members_.control().buffer_users[number].load() == 0) unmap(number);
  }
}

void Buffers::unmap(size_t number) {
  auto& views = buffers_[number].views;
  if (views.empty()) return;
  by_address_.erase(views[members_.rank()]->data());
  views.clear();
}

Buffers::Location Buffers::find(const void* data, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  auto after = by_address_.upper_bound(begin);
  if (after == by_address_.begin()) return {};
  const auto& [base, number] = *std::prev(after);
  const Mapping& view = *buffers_[number].views[members_.rank()];
  if (begin + bytes > base + view.bytes()) return {};
  return {.buffer = number, .offset = begin - base};
}

}  // namespace weft::shm
