#include "weft/comm/two_level/host_operations.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/math.h"
#include "weft/comm/reduce/reduce.h"

namespace weft {
namespace {

/// Up to this size every host's sum goes to all hosts, and each adds them up: one trip instead of two.
constexpr int64_t kSmallBytes = 16 << 10;

bool is_narrow(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

int64_t count(ShardRange range) { return range.end - range.begin; }

at::Tensor slice_of(const at::Tensor& flat, ShardRange range) { return flat.narrow(0, range.begin, count(range)); }

const std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<const std::byte*>(tensor.const_data_ptr()); }

/// Returns part `index` of `parts` equal ones, aligned to vectors.
ShardRange aligned_share(ShardRange whole, int parts, int index) {
  constexpr int64_t kAlign = 64;
  const int64_t step = round_up(ceil_divide(count(whole), static_cast<int64_t>(parts)), kAlign);
  return {std::min(whole.end, whole.begin + step * index), std::min(whole.end, whole.begin + step * (index + 1))};
}

/// A chunk that this rank adds up for `peer`, or for itself: -1.
struct Portion {
  int peer = -1;
  ShardRange range;
};

/// Everything that `position` adds up over its host, chunks for others first.
std::vector<Portion> portions_of(const HostMap& map, int position, const std::vector<ShardRange>& parts, int64_t chunk) {
  std::vector<Portion> portions;
  const std::vector<int> carried = map.carried(position);
  bool more = true;
  for (int64_t index = 0; more; ++index) {
    more = false;
    for (const int peer : carried) {
      const ShardRange range = chunk_of(parts[peer], chunk, index);
      if (count(range) == 0) continue;
      portions.push_back({peer, range});
      more = true;
    }
  }
  for (const ShardRange& range : chunks_of(parts[position], chunk)) portions.push_back({-1, range});
  return portions;
}

}  // namespace

HostOperations::HostOperations(const c10::intrusive_ptr<GlooEngine>& engine, const GroupPlan& plan, HostMap map,
                               std::shared_ptr<shm::HostGroup> inside)
    : rank_(plan.axis.index),
      map_(std::move(map)),
      sum_(map_, plan.options.tree_order),
      tree_order_(plan.options.tree_order),
      across_(plan.options.across_hosts),
      inside_(std::move(inside)),
      messages_(engine, plan.axis) {
  for (const HostSum::Term& term : sum_.terms()) {
    if (term.host == map_.host_of(rank_)) own_terms_.push_back(term);
  }
}

void HostOperations::begin(const Call& call, uint64_t number) {
  call_ = call;
  messages_.begin(call, number);
}

HostOperations::Parts HostOperations::shards(int64_t numel) const {
  Parts parts;
  for (int position = 0; position < map_.size(); ++position) parts.push_back(shard_range(numel, map_.size(), position));
  return parts;
}

// Equal shares per host, so no host sends more than another.
HostOperations::Parts HostOperations::shares(int64_t numel) const {
  Parts parts;
  for (int position = 0; position < map_.size(); ++position) {
    const int host = map_.host_of(position);
    const ShardRange of_host = aligned_share({0, numel}, map_.num_hosts(), host);
    parts.push_back(aligned_share(of_host, static_cast<int>(map_.members(host).size()), map_.place_of(position)));
  }
  return parts;
}

void HostOperations::read_inside(const at::Tensor& input, const std::vector<shm::Ranges>& wanted, const shm::Consume& consume) {
  if (inside_) return inside_->reduce_ranges(call_, input, wanted, consume);
  for (const ShardRange& range : wanted.front()) {
    const void* source = bytes_of(input) + range.begin * input.element_size();
    consume(range, &source);
  }
}

// Indexed by host, then by chunk.
std::vector<std::vector<Expected>> HostOperations::expect_terms(const std::vector<ShardRange>& chunks, const Wire& wire) {
  std::vector<std::vector<Expected>> expected(map_.num_hosts());
  for (int other = 0; other < map_.num_hosts(); ++other) {
    if (other == map_.host_of(rank_)) continue;
    const int peer = map_.carrier(other, rank_);
    messages_.expect(peer);
    expected[other].reserve(chunks.size());
    for (const ShardRange& range : chunks) {
      const at::Tensor room = wire.room(count(range) * sum_.terms_of(other));
      expected[other].push_back({peer, room, messages_.receive(peer, room)});
    }
  }
  return expected;
}

std::vector<at::Tensor> HostOperations::send_terms(const at::Tensor& input, const Parts& parts, ReduceOp op, const Wire& wire) {
  for (const int peer : map_.carried(rank_)) messages_.greet(peer);
  const std::vector<int>& members = map_.members(map_.host_of(rank_));
  std::vector<Portion> portions;
  std::vector<shm::Ranges> wanted;
  for (const int position : members) {
    const std::vector<Portion> of_member = portions_of(map_, position, parts, chunk_numel(input));
    wanted.emplace_back();
    for (const Portion& portion : of_member) wanted.back().push_back(portion.range);
    if (position == rank_) portions = of_member;
  }
  std::vector<at::Tensor> own_terms;
  size_t at = 0;
  int64_t filled = 0;
  at::Tensor terms;
  read_inside(input, wanted, [&](ShardRange piece, const void* const* sources) {
    const Portion& portion = portions[at];
    const int64_t numel = count(portion.range);
    if (members.size() == 1) {
      terms = slice_of(input, portion.range);  // nothing to add up
    } else {
      if (filled == 0) terms = at::empty({numel * static_cast<int64_t>(own_terms_.size())}, input.options());
      add_up_inside(op, terms, numel, filled, count(piece), sources);
    }
    filled += count(piece);
    if (filled < numel) return;
    portion.peer >= 0 ? messages_.send(portion.peer, wire.pack(terms)) : own_terms.push_back(terms);
    filled = 0;
    ++at;
  });
  return own_terms;
}

void HostOperations::reduce(const at::Tensor& input, const Parts& parts, ReduceOp op, const at::Tensor& own, const Wire& wire,
                            const std::function<void(ShardRange chunk)>& done) {
  const std::vector<ShardRange> own_chunks = chunks_of(parts[rank_], chunk_numel(input));
  const int host = map_.host_of(rank_);
  std::vector<std::vector<Expected>> expected = expect_terms(own_chunks, wire);
  const std::vector<at::Tensor> own_terms = send_terms(input, parts, op, wire);
  std::vector<at::Tensor> all(map_.num_hosts());
  for (size_t index = 0; index < own_chunks.size(); ++index) {
    for (int other = 0; other < map_.num_hosts(); ++other) {
      if (other == host) {
        all[other] = own_terms[index];
        continue;
      }
      Expected& from = expected[other][index];
      messages_.wait(from.peer, from.pending);
      all[other] = wire.unpack(from.data);
      from.data = at::Tensor();
    }
    const ShardRange range = own_chunks[index];
    const int64_t first = parts[rank_].begin;
    add_up_hosts(op, slice_of(own, {range.begin - first, range.end - first}), all);
    if (done) done(range);
  }
}

void HostOperations::meet_inside() {
  if (inside_) inside_->backend().barrier(call_.what).wait();
}

void HostOperations::share_inside(const at::Tensor& tensor, const Parts& parts) {
  if (!inside_) return;
  std::vector<shm::Ranges> held;
  for (const int position : map_.members(map_.host_of(rank_))) {
    shm::Ranges ranges{parts[position]};
    for (const int other : map_.carried(position)) ranges.push_back(parts[other]);
    ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](ShardRange range) { return count(range) == 0; }),
                 ranges.end());
    std::sort(ranges.begin(), ranges.end(), [](ShardRange a, ShardRange b) { return a.begin < b.begin; });
    held.push_back(std::move(ranges));
  }
  inside_->gather_ranges(call_, tensor, held);
}

void HostOperations::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  if (tree_order_ && is_narrow(tensor.scalar_type())) {  // the tree adds in float32 and rounds once
    call_.dtype = at::kFloat;
    const at::Tensor wide = tensor.to(at::kFloat);
    all_reduce(wide, op);
    tensor.copy_(wide);
    return;
  }
  const at::Tensor flat = tensor.view({-1});
  if (static_cast<int64_t>(tensor.nbytes()) <= kSmallBytes) return all_reduce_small(flat, op);
  const Parts parts = shares(flat.numel());
  const Wire wire(flat.scalar_type(), across_, op);
  const at::Tensor own = slice_of(flat, parts[rank_]);
  std::optional<HostGather> gather;
  const auto expect_results = [&] { gather.emplace(messages_, map_, rank_, flat, parts, wire); };
  reduce(flat, parts, op, own, wire, [&](ShardRange chunk) {
    if (!gather) expect_results();
    gather->send(chunk);
  });
  if (!gather) expect_results();
  gather->finish();
  messages_.finish();
  share_inside(flat, parts);
}

void HostOperations::all_reduce_small(const at::Tensor& flat, ReduceOp op) {
  const int host = map_.host_of(rank_);
  const auto numel = flat.numel();
  std::vector<shm::Ranges> wanted(map_.members(host).size());
  if (numel > 0) wanted.front().push_back({0, numel});
  std::vector<at::Tensor> all(map_.num_hosts());
  all[host] = at::empty({numel * static_cast<int64_t>(own_terms_.size())}, flat.options());
  std::vector<Expected> expected;
  for (const int peer : other_firsts()) {
    const int other = map_.host_of(peer);
    all[other] = at::empty({numel * sum_.terms_of(other)}, flat.options());
    expected.push_back({peer, all[other], messages_.receive(peer, all[other])});
  }
  read_inside(flat, wanted, [&](ShardRange piece, const void* const* sources) {
    add_up_inside(op, all[host], numel, piece.begin, count(piece), sources);
  });
  for (const int peer : other_firsts()) messages_.greet(peer);
  for (const int peer : other_firsts()) messages_.send(peer, all[host]);
  for (const Expected& from : expected) messages_.wait(from.peer, from.pending);
  if (is_first() && numel > 0) add_up_hosts(op, flat, all);
  messages_.finish();
  if (inside_) inside_->backend().broadcast(flat, 0, call_.what).wait();
}

void HostOperations::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  if (tree_order_ && is_narrow(input.scalar_type())) {
    call_.dtype = at::kFloat;
    const at::Tensor wide = at::empty({output.numel()}, output.options().dtype(at::kFloat));
    reduce_scatter(wide, input.to(at::kFloat), op);
    output.view({-1}).copy_(wide);
    return;
  }
  const Wire wire(input.scalar_type(), across_, op);
  reduce(input.view({-1}), shards(input.numel()), op, output.view({-1}), wire, {});
  messages_.finish();
  meet_inside();
}

void HostOperations::all_gather(const at::Tensor& output, const at::Tensor& input) {
  const at::Tensor flat = output.view({-1});
  const Parts parts = shards(flat.numel());
  const at::Tensor own = slice_of(flat, parts[rank_]);
  if (own.numel() > 0 && own.const_data_ptr() != input.const_data_ptr()) own.copy_(input.view({-1}));
  HostGather gather(messages_, map_, rank_, flat, parts, Wire(flat.scalar_type(), AcrossHosts::exact, ReduceOp::sum));
  for (const ShardRange& chunk : chunks_of(parts[rank_], chunk_numel(flat))) gather.send(chunk);
  gather.finish();
  messages_.finish();
  share_inside(flat, parts);
}

}  // namespace weft
