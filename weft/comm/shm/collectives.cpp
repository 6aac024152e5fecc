#include "weft/comm/shm/collectives.h"

#include <algorithm>
#include <array>

#include "weft/base/math.h"
#include "weft/comm/call/shard_range.h"
#include "weft/comm/reduce/reduce.h"
#include "weft/comm/shm/bytes.h"

namespace weft::shm {
namespace {

// Up to this size every rank reduces everything itself, which saves a barrier.
constexpr int64_t kSmallBytes = 4096;

}  // namespace

Collectives::Collectives(Members& members, Barrier& barrier, Buffers& buffers, Staging staging)
    : members_(members), barrier_(barrier), buffers_(buffers), staging_(staging) {}

std::byte* Collectives::area(int64_t index, int rank) const {
  const int64_t stage = (chunks_ + index) % kStages;
  return staging_.base + (stage * members_.size() + rank) * staging_.area_bytes;
}

int Collectives::count_registered() const {
  int count = 0;
  for (int rank = 0; rank < members_.size(); ++rank) count += registered(rank) ? 1 : 0;
  return count;
}

std::byte* Collectives::registered_data(int rank) const {
  const CallRecord& record = barrier_.record(rank);
  return buffers_.at(record.buffer, rank, record.offset);
}

int64_t Collectives::chunk_numel(const Call& call) const {
  return static_cast<int64_t>(staging_.area_bytes) / item_bytes(call);
}

void Collectives::barrier(const Call& call) {
  barrier_.open(call);
  barrier_.begin(call);
}

void Collectives::all_reduce(const Call& call, const at::Tensor& tensor) {
  std::byte* data = data_of(tensor);
  CallRecord& own = barrier_.open(call);
  if (call.numel * item_bytes(call) <= kSmallBytes) return all_reduce_small(call, data);
  const Buffers::Location location = buffers_.find(data, tensor.nbytes());
  own.buffer = location.buffer;
  own.offset = location.offset;
  const bool mine = location.buffer >= 0;
  if (!mine) copy_bytes(area(0, members_.rank()), data, std::min(chunk_numel(call), call.numel) * item_bytes(call));
  barrier_.begin(call);
  if (count_registered() == members_.size()) return all_reduce_registered(call);
  all_reduce_staged(call, data, mine);
}

void Collectives::all_reduce_small(const Call& call, std::byte* data) {
  copy_bytes(area(0, members_.rank()), data, call.numel * item_bytes(call));
  barrier_.begin(call);
  std::array<const void*, kMaxRanks> sources;
  for (int rank = 0; rank < members_.size(); ++rank) sources[rank] = area(0, rank);
  void* output = data;
  reduce_tree({call.dtype, call.reduce}, &output, 1, sources.data(), members_.size(), call.numel);
  ++chunks_;
}

// Every rank reduces its slice from all ranks' buffers and writes the result to all of them; no other rank touches that slice.
void Collectives::all_reduce_registered(const Call& call) {
  const Range own = slice({0, call.numel}, members_.rank());
  std::array<void*, kMaxRanks> buffers;
  for (int rank = 0; rank < members_.size(); ++rank) buffers[rank] = registered_data(rank) + own.begin * item_bytes(call);
  reduce_tree({call.dtype, call.reduce}, buffers.data(), members_.size(), buffers.data(), members_.size(), own.count());
  barrier_.meet(call);
}

void Collectives::all_reduce_staged(const Call& call, std::byte* data, bool registered) {
  const int64_t item = item_bytes(call);
  const int64_t step = chunk_numel(call);
  const int64_t chunks = ceil_divide(call.numel, step);
  const auto range = [&](int64_t index) { return Range{index * step, std::min(call.numel, (index + 1) * step)}; };
  // Chunk 0 was copied in before the barrier.
  for (int64_t turn = 1; turn <= chunks + 1; ++turn) {
    if (turn < chunks && !registered) {
      copy_bytes(area(turn, members_.rank()), data + range(turn).begin * item, range(turn).count() * item);
    }
    if (turn <= chunks) reduce_slice(call, data, range(turn - 1), turn - 1);
    if (turn >= 2) copy_result(call, data, range(turn - 2), turn - 2);
    if (turn <= chunks) barrier_.meet(call);
  }
  chunks_ += chunks;
}

// The result goes to this rank's tensor and to its slice of its staging area, where peers fetch it.
void Collectives::reduce_slice(const Call& call, std::byte* data, Range chunk, int64_t index) {
  const int64_t item = item_bytes(call);
  const Range own = slice(chunk, members_.rank());
  if (own.count() == 0) return;
  const int64_t within = (own.begin - chunk.begin) * item;
  std::array<const void*, kMaxRanks> sources;
  for (int rank = 0; rank < members_.size(); ++rank) {
    sources[rank] = registered(rank) ? registered_data(rank) + own.begin * item : area(index, rank) + within;
  }
  sources[members_.rank()] = data + own.begin * item;
  void* outputs[] = {data + own.begin * item, area(index, members_.rank()) + within};
  reduce_tree({call.dtype, call.reduce}, outputs, 2, sources.data(), members_.size(), own.count());
}

void Collectives::copy_result(const Call& call, std::byte* data, Range chunk, int64_t index) const {
  const int64_t item = item_bytes(call);
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (rank == members_.rank()) continue;
    const Range part = slice(chunk, rank);
    copy_bytes(data + part.begin * item, area(index, rank) + (part.begin - chunk.begin) * item, part.count() * item);
  }
}

// Slices begin at multiples of kAlignElements, so no cache line or vector spans two ranks' slices.
Collectives::Range Collectives::slice(Range chunk, int rank) const {
  const int64_t step = round_up(ceil_divide(chunk.count(), members_.size()), kAlignElements);
  return {std::min(chunk.end, chunk.begin + step * rank), std::min(chunk.end, chunk.begin + step * (rank + 1))};
}

std::vector<Ranges> Collectives::shards(int64_t numel) const {
  std::vector<Ranges> ranges;
  ranges.reserve(members_.size());
  for (int rank = 0; rank < members_.size(); ++rank) ranges.push_back({shard_range(numel, members_.size(), rank)});
  return ranges;
}

void Collectives::reduce_scatter(const Call& call, const at::Tensor& output, const at::Tensor& input) {
  const int64_t begin = shard_range(call.numel, members_.size(), members_.rank()).begin;
  reduce_ranges(call, input, shards(call.numel), [&](ShardRange piece, const void* const* sources) {
    void* target = data_of(output) + (piece.begin - begin) * item_bytes(call);
    reduce_tree({call.dtype, call.reduce}, &target, 1, sources, members_.size(), piece.end - piece.begin);
  });
}

void Collectives::all_to_all(const Call& call, const at::Tensor& output, const at::Tensor& input) {
  std::byte* out = data_of(output);
  const int64_t item = item_bytes(call);
  const ShardRange own = shard_range(call.numel, members_.size(), members_.rank());
  reduce_ranges(call, input, shards(call.numel), [&](ShardRange piece, const void* const* sources) {
    for (int rank = 0; rank < members_.size(); ++rank) {
      std::byte* target = out + (rank * (own.end - own.begin) + piece.begin - own.begin) * item;
      copy_bytes(target, static_cast<const std::byte*>(sources[rank]), (piece.end - piece.begin) * item);
    }
  });
}

void Collectives::all_gather(const Call& call, const at::Tensor& output, const at::Tensor& input) {
  const std::vector<Ranges> held = shards(call.numel);
  const std::byte* in = data_of(input);
  copy_bytes(data_of(output) + held[members_.rank()][0].begin * item_bytes(call), in, input.nbytes());
  share(call, data_of(output), held, in);
}

void Collectives::broadcast(const Call& call, const at::Tensor& tensor) {
  const int64_t item = item_bytes(call);
  const bool is_root = call.root == members_.rank();
  std::byte* data = data_of(tensor);
  CallRecord& own = barrier_.open(call);
  const Buffers::Location location = is_root ? buffers_.find(data, tensor.nbytes()) : Buffers::Location{};
  own.buffer = location.buffer;
  own.offset = location.offset;

  const int64_t step = chunk_numel(call);
  const auto bytes = [&](int64_t index) { return std::max<int64_t>(std::min(step, call.numel - index * step), 0) * item; };
  const auto copy_in = [&](int64_t index) {
    if (is_root && location.buffer < 0) copy_bytes(area(index, call.root), data + index * step * item, bytes(index));
  };
  copy_in(0);
  barrier_.begin(call);
  if (registered(call.root)) {
    if (!is_root) copy_bytes(data, registered_data(call.root), call.numel * item);
    barrier_.meet(call);
    return;
  }
  const int64_t chunks = ceil_divide(call.numel, step);
  for (int64_t index = 0; index < chunks; ++index) {
    if (index > 0) {
      copy_in(index);
      barrier_.meet(call);
    }
    if (!is_root) copy_bytes(data + index * step * item, area(index, call.root), bytes(index));
  }
  chunks_ += chunks;
}

}  // namespace weft::shm
