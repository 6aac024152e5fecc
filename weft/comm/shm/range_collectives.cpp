// The calls of Collectives in which each rank reads or provides its own ranges.
#include <algorithm>
#include <array>

#include "weft/base/math.h"
#include "weft/comm/shm/bytes.h"
#include "weft/comm/shm/collectives.h"

namespace weft::shm {

Collectives::Rounds::Rounds(const std::vector<Ranges>& ranges, int64_t room) : of_rank_(ranges.size()) {
  for (size_t rank = 0; rank < ranges.size(); ++rank) {
    int64_t left = 0;
    for (const ShardRange& range : ranges[rank]) {
      for (int64_t begin = range.begin; begin < range.end;) {
        if (left == 0) {
          of_rank_[rank].emplace_back();
          left = room;
        }
        const int64_t end = std::min(range.end, begin + left);
        of_rank_[rank].back().push_back({begin, end});
        left -= end - begin;
        begin = end;
      }
    }
    count_ = std::max(count_, static_cast<int64_t>(of_rank_[rank].size()));
  }
}

const std::vector<Collectives::Range>& Collectives::Rounds::of(int rank, int64_t index) const {
  static const std::vector<Range> none;
  const auto& rounds = of_rank_[static_cast<size_t>(rank)];
  return index < static_cast<int64_t>(rounds.size()) ? rounds[static_cast<size_t>(index)] : none;
}

void Collectives::reduce_ranges(const Call& call, const at::Tensor& input, const std::vector<Ranges>& wanted,
                                const Consume& consume) {
  const std::byte* data = data_of(input);
  const Buffers::Location location = buffers_.find(data, input.nbytes());
  CallRecord& own = barrier_.open(call);
  own.buffer = location.buffer;
  own.offset = location.offset;
  const int size = members_.size();
  const int64_t room = std::max<int64_t>(chunk_numel(call) / size / kAlignElements * kAlignElements, 1);
  const Rounds rounds(wanted, room);
  const bool mine = location.buffer >= 0;
  if (!mine) stage_for_peers(call, data, rounds, 0, room);
  barrier_.begin(call);

  const int num_registered = count_registered();
  if (num_registered == size) {
    for (const ShardRange& range : wanted[members_.rank()]) read_range(call, data, {range.begin, range.end}, 0, 0, consume);
    barrier_.meet(call);
    return;
  }
  for (int64_t index = 0; index < rounds.count(); ++index) {
    if (index > 0) {
      if (!mine) stage_for_peers(call, data, rounds, index, room);
      barrier_.meet(call);
    }
    int64_t staged = members_.rank() * room;
    for (const Range& piece : rounds.of(members_.rank(), index)) {
      read_range(call, data, piece, index, staged, consume);
      staged += piece.count();
    }
  }
  chunks_ += rounds.count();
  if (num_registered > 0) barrier_.meet(call);  // until then a peer may still read this rank's tensor
}

// In each round, each rank's staging area has space for `room` elements per peer: those that the peer wants.
void Collectives::stage_for_peers(const Call& call, const std::byte* data, const Rounds& rounds, int64_t index, int64_t room) {
  const int64_t item = item_bytes(call);
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (rank == members_.rank()) continue;
    std::byte* to = area(index, members_.rank()) + rank * room * item;
    for (const Range& piece : rounds.of(rank, index)) {
      copy_bytes(to, data + piece.begin * item, piece.count() * item);
      to += piece.count() * item;
    }
  }
}

/// `staged`: elements before the piece in the areas of ranks with unregistered data.
void Collectives::read_range(const Call& call, const std::byte* data, Range piece, int64_t index, int64_t staged,
                             const Consume& consume) const {
  if (piece.count() == 0) return;
  const int64_t item = item_bytes(call);
  std::array<const void*, kMaxRanks> sources;
  for (int rank = 0; rank < members_.size(); ++rank) {
    sources[rank] = registered(rank) ? registered_data(rank) + piece.begin * item : area(index, rank) + staged * item;
  }
  sources[members_.rank()] = data + piece.begin * item;
  consume({piece.begin, piece.end}, sources.data());
}

void Collectives::gather_ranges(const Call& call, const at::Tensor& tensor, const std::vector<Ranges>& held) {
  share(call, data_of(tensor), held, nullptr);
}

void Collectives::share(const Call& call, std::byte* out, const std::vector<Ranges>& held, const std::byte* copy) {
  const int64_t item = item_bytes(call);
  const int size = members_.size(), me = members_.rank();
  const auto first_of = [&](int rank) { return held[rank].empty() ? 0 : held[rank].front().begin; };
  const std::byte* in = out + first_of(me) * item;
  const size_t bytes = held[me].empty() ? 0 : static_cast<size_t>((held[me].back().end - first_of(me)) * item);

  CallRecord& own = barrier_.open(call);
  Buffers::Location location = copy == nullptr ? Buffers::Location{} : buffers_.find(copy, bytes);
  if (location.buffer < 0) location = buffers_.find(in, bytes);
  own.buffer = location.buffer;
  own.offset = location.offset;
  const Rounds rounds(held, chunk_numel(call));
  const bool mine = location.buffer >= 0;
  if (!mine) stage_own(call, out, rounds, 0);
  barrier_.begin(call);

  const int num_registered = count_registered();
  for (int rank = 0; rank < size; ++rank) {
    if (rank == me || !registered(rank)) continue;
    for (const ShardRange& range : held[rank]) {
      copy_bytes(out + range.begin * item, registered_data(rank) + (range.begin - first_of(rank)) * item,
                 (range.end - range.begin) * item);
    }
  }
  const int64_t count = num_registered == size ? 0 : rounds.count();
  for (int64_t index = 0; index < count; ++index) {
    if (index > 0) {
      if (!mine) stage_own(call, out, rounds, index);
      barrier_.meet(call);
    }
    for (int rank = 0; rank < size; ++rank) {
      if (rank == me || registered(rank)) continue;
      const std::byte* from = area(index, rank);
      for (const Range& piece : rounds.of(rank, index)) {
        copy_bytes(out + piece.begin * item, from, piece.count() * item);
        from += piece.count() * item;
      }
    }
  }
  chunks_ += count;
  if (num_registered > 0) barrier_.meet(call);
}

void Collectives::stage_own(const Call& call, const std::byte* data, const Rounds& rounds, int64_t index) {
  const int64_t item = item_bytes(call);
  std::byte* to = area(index, members_.rank());
  for (const Range& piece : rounds.of(members_.rank(), index)) {
    copy_bytes(to, data + piece.begin * item, piece.count() * item);
    to += piece.count() * item;
  }
}

}  // namespace weft::shm
