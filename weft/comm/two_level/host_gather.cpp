#include "weft/comm/two_level/host_gather.h"

#include <algorithm>

namespace weft {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;

at::Tensor at_range(const at::Tensor& flat, ShardRange range) { return flat.narrow(0, range.begin, range.end - range.begin); }

}  // namespace

int64_t chunk_numel(const at::Tensor& tensor) { return kChunkBytes / static_cast<int64_t>(tensor.element_size()); }

ShardRange chunk_of(ShardRange part, int64_t chunk, int64_t index) {
  return {std::min(part.end, part.begin + chunk * index), std::min(part.end, part.begin + chunk * (index + 1))};
}

std::vector<ShardRange> chunks_of(ShardRange part, int64_t chunk) {
  std::vector<ShardRange> chunks;
  for (int64_t begin = part.begin; begin < part.end; begin += chunk)
    chunks.push_back({begin, std::min(part.end, begin + chunk)});
  return chunks;
}

HostGather::HostGather(Messages& messages, const HostMap& map, int rank, const at::Tensor& flat,
                       const std::vector<ShardRange>& parts, const Wire& wire)
    : messages_(messages), flat_(flat), wire_(wire) {
  for (int host = 0; host < map.num_hosts(); ++host) {
    if (host != map.host_of(rank)) peers_.push_back(map.carrier(host, rank));
  }
  for (const int peer : map.carried(rank)) {
    messages_.expect(peer);
    for (const ShardRange& range : chunks_of(parts[peer], chunk_numel(flat))) {
      const at::Tensor data = wire.is_exact() ? at_range(flat, range) : wire.room(range.end - range.begin);
      expected_.push_back({peer, data, messages_.receive(peer, data)});
      places_.push_back(range);
    }
  }
  for (const int peer : peers_) messages_.greet(peer);
}

void HostGather::send(ShardRange chunk) {
  const at::Tensor own = at_range(flat_, chunk), packed = wire_.pack(own);
  if (!wire_.is_exact()) own.copy_(packed);
  for (const int peer : peers_) messages_.send(peer, packed);
}

void HostGather::finish() {
  for (size_t i = 0; i < expected_.size(); ++i) {
    messages_.wait(expected_[i].peer, expected_[i].pending);
    if (!wire_.is_exact()) at_range(flat_, places_[i]).copy_(wire_.unpack(expected_[i].data));
  }
}

}  // namespace weft
