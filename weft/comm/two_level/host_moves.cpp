// The calls of HostOperations without reductions.
#include <cstring>
#include <vector>

#include "weft/comm/two_level/host_operations.h"

namespace weft {
namespace {

int64_t length(ShardRange range) { return range.end - range.begin; }

}  // namespace

std::vector<int> HostOperations::other_firsts() const {
  std::vector<int> firsts;
  if (!is_first()) return firsts;
  for (int host = 0; host < map_.num_hosts(); ++host) {
    if (host != map_.host_of(rank_)) firsts.push_back(map_.members(host).front());
  }
  return firsts;
}

// A binomial tree over hosts, numbered from the root's: host v receives from host v & (v - 1).
void HostOperations::broadcast(const at::Tensor& tensor, int root) {
  const int hosts = map_.num_hosts(), host = map_.host_of(rank_), from = map_.host_of(root);
  const auto entry = [&](int number) {
    const int at = (from + number) % hosts;
    return at == from ? root : map_.carrier(at, root);
  };
  const int own = (host - from + hosts) % hosts;
  if (entry(own) == rank_) {
    int bit = 1;
    for (; bit < hosts; bit <<= 1) {
      if ((own & bit) == 0) continue;
      const int parent = entry(own - bit);
      messages_.wait(parent, messages_.receive(parent, tensor));
      break;
    }
    for (bit >>= 1; bit > 0; bit >>= 1) {
      if (own + bit < hosts) messages_.send(entry(own + bit), tensor);
    }
  }
  messages_.finish();
  if (inside_) inside_->backend().broadcast(tensor, map_.place_of(entry(own)), call_.what).wait();
}

void HostOperations::all_to_all(const at::Tensor& output, const at::Tensor& input) {
  const at::Tensor in = input.view({-1}), out = output.view({-1});
  const Parts parts = shards(in.numel());
  const int64_t own = length(parts[rank_]);
  const int host = map_.host_of(rank_);
  const auto from = [&](int position) { return out.narrow(0, position * own, own); };
  std::vector<Expected> expected;
  for (int other = 0; other < map_.size(); ++other) {
    if (map_.host_of(other) != host) expected.push_back({other, from(other), messages_.receive(other, from(other))});
  }
  for (int other = 0; other < map_.size(); ++other) {
    if (map_.host_of(other) == host) continue;
    messages_.greet(other);
    messages_.send(other, in.narrow(0, parts[other].begin, length(parts[other])));
  }
  const std::vector<int>& members = map_.members(host);
  std::vector<shm::Ranges> wanted;
  for (const int position : members) {
    wanted.emplace_back();
    if (length(parts[position]) > 0) wanted.back().push_back(parts[position]);
  }
  const auto item = static_cast<int64_t>(in.element_size());
  read_inside(in, wanted, [&](ShardRange piece, const void* const* sources) {
    for (size_t place = 0; place < members.size(); ++place) {
      auto* target = static_cast<std::byte*>(from(members[place]).data_ptr()) + (piece.begin - parts[rank_].begin) * item;
      std::memcpy(target, sources[place], static_cast<size_t>(length(piece) * item));
    }
  });
  for (const Expected& message : expected) messages_.wait(message.peer, message.pending);
  messages_.finish();
  meet_inside();
}

// Ends once the first rank of each host has met its own host's ranks and the other first ranks.
void HostOperations::barrier() {
  meet_inside();
  for (const int peer : other_firsts()) {
    messages_.expect(peer);
    messages_.greet(peer);
  }
  messages_.finish();
  meet_inside();
}

}  // namespace weft
