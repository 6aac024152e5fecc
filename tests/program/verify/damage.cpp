#include "tests/program/verify/damage.h"

#include <algorithm>
#include <utility>

#include "weft/program/axes.h"
#include "weft/program/passes/waits.h"
#include "weft/program/verify/order.h"

namespace weft {
namespace {

using test::Random;

class Damager {
 public:
  Damager(const Program& program, Random& random)
      : program_(program),
        random_(random),
        rank_(random.below(program.world_size())),
        list_(program.of(rank_)),
        alone_(copies() > 1 && random.one_in(2)) {}

  std::optional<Damage> make(DamageKind kind) {
    switch (kind) {
      case DamageKind::dropped:
        return dropped();
      case DamageKind::doubled:
        return doubled();
      case DamageKind::swapped:
        return random_.one_in(3) ? swapped_meetings() : swapped();
      case DamageKind::misaddressed:
        return misaddressed();
      case DamageKind::impatient:
        return impatient();
      case DamageKind::swapped_loads:
        return swapped_loads();
      case DamageKind::wrong_free:
        return wrong_free();
    }
    return {};
  }

 private:
  int copies() const {
    return static_cast<int>(
        std::count(program_.list_of_rank.begin(), program_.list_of_rank.end(), program_.list_of_rank[rank_]));
  }
  int any() { return random_.below(static_cast<int>(list_.size())); }
  bool sharded() const { return program_.shard_level != ShardLevel::none; }
  bool empty(const Instruction& x) const {
    return std::all_of(program_.block_numel.begin() + x.first, program_.block_numel.begin() + x.last,
                       [](int64_t numel) { return numel == 0; });
  }
  // If only some of its ranks left it out, it would be missed.
  bool is_early_scatter(const Instruction& x) const {
    return x.op == Op::reduce_scatter && x.micro < program_.micro_batches - 1 && (!alone_ || program_.shards == 1);
  }
  bool does_nothing(const Instruction& x) const { return sharded() && (x.op == Op::update || x.op == Op::combine) && empty(x); }

  std::optional<Damage> dropped() {
    const int i = any();
    if (is_early_scatter(list_[i]) || does_nothing(list_[i])) return {};
    InstructionList list = list_;
    list.erase(list.begin() + i);
    return damaged("dropped " + text(list_[i]), {list_[i].op}, list);
  }

  std::optional<Damage> doubled() {
    const int i = any();
    if (does_nothing(list_[i])) return {};
    InstructionList list = list_;
    const int at = random_.below(static_cast<int>(list.size()) + 1);
    list.insert(list.begin() + at, Instruction(list_[i]));
    return damaged(fmt::format("doubled {} at {}", text(list_[i]), at), {list_[i].op}, list);
  }

  // `later` depends on `earlier` only because both add to the gradients of a block whose weights both read.
  bool only_share_gradients(const Instruction& earlier, const Instruction& later) const {
    if (!adds_gradients(earlier.op) || !adds_gradients(later.op) || earlier.first == later.first) return false;
    return !(later.op == Op::backward && later.micro == earlier.micro && later.first + 1 == earlier.first);
  }

  // Swaps an instruction with one that it waits for.
  std::optional<Damage> swapped() {
    const int i = any();
    if (list_[i].waits.empty()) return {};
    const int j = random_.of(list_[i].waits);
    if (is_collective(list_[i]) && list_[j].op == Op::send) return {};
    if (only_share_gradients(list_[j], list_[i]) || does_nothing(list_[i]) || does_nothing(list_[j])) return {};
    return swapped(i, j);
  }

  std::optional<Damage> swapped(int i, int j) const {
    InstructionList list = list_;
    std::swap(list[i], list[j]);
    return damaged(fmt::format("swapped {} and {}", text(list_[j]), text(list_[i])), {list_[i].op, list_[j].op}, list);
  }

  // Nothing waits between them: each gets the loader's next one.
  std::optional<Damage> swapped_loads() {
    std::vector<int> loads;
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      if (list_[i].op == Op::load) loads.push_back(i);
    }
    if (loads.size() < 2) return {};
    const int k = random_.below(static_cast<int>(loads.size()) - 1);
    return swapped(loads[k + 1], loads[k]);
  }

  // Another number of bytes, or the same with an instruction on another micro-batch.
  std::optional<Damage> wrong_free() {
    const int i = any(), j = any();
    if (list_[i].frees == 0) return {};
    InstructionList list = list_;
    list[i].frees = random_.below(static_cast<int>(2 * list_[i].frees));
    const bool elsewhere = random_.one_in(2) && list_[i].micro != list_[j].micro;
    if (elsewhere) {
      list[i].frees = 0;
      list[j].frees += list_[i].frees;
    }
    if (list[i].frees == list_[i].frees) return {};
    const std::string where = elsewhere ? text(list_[j]) : std::to_string(list[i].frees);
    return with(fmt::format("{} of {} bytes freed became {}", text(list_[i]), list_[i].frees, where), {list_[i].op}, list);
  }

  // True if a rank that runs another list, or the same one undamaged, joins it too.
  bool has_other_members(const Instruction& x) const {
    if (x.axes.empty()) return is_transfer(x.op);
    if (x.axes.has(kPipelineAxis)) return program_.mesh.pp > 1;
    return alone_ && size_along(program_, x.axes) > 1;
  }

  // Ties of two blocks that no two ranks share are independent.
  bool shared_by_two(const Instruction& x, const Instruction& y) const {
    if (tied_block(x) < 0) return true;
    const std::vector<int>& holders = program_.holders[y.first];
    const auto shared = [&](int place) { return std::count(holders.begin(), holders.end(), place) > 0; };
    return std::count_if(program_.holders[x.first].begin(), program_.holders[x.first].end(), shared) > 1;
  }

  // Swaps two messages of one channel, or two collectives of one axis, whose original order some other rank keeps.
  std::optional<Damage> swapped_meetings() {
    const int i = any();
    if (!has_other_members(list_[i])) return {};
    std::vector<int> others;
    for (int j = 0; j < static_cast<int>(list_.size()); ++j) {
      const Instruction &x = list_[i], &y = list_[j];
      const bool same_channel = is_transfer(x.op) ? y.op == x.op && y.peer == x.peer : y.axes == x.axes;
      if (same_channel && shared_by_two(x, y) && text(x) != text(y)) others.push_back(j);
    }
    if (others.empty()) return {};
    return swapped(i, random_.of(others));
  }

  std::optional<Damage> misaddressed() {
    const int i = any();
    const std::vector<Instruction> choices = elsewhere(list_[i]);
    if (choices.empty()) return {};
    const Instruction& changed = random_.of(choices);
    if (is_early_scatter(list_[i]) && empty(changed)) return {};
    if (does_nothing(list_[i]) && does_nothing(changed)) return {};
    if (list_[i].axes == kInnerAxis && changed.axes == kShardAxis && !alone_) return {};
    InstructionList list = list_;
    list[i] = changed;
    return damaged(
        fmt::format("{} became {}, axis {}, matter {}", text(list_[i]), text(changed), name(changed.axes), name(changed.what)),
        {list_[i].op}, list);
  }

  // The instruction with one of its addresses changed to another in range.
  std::vector<Instruction> elsewhere(const Instruction& x) const {
    std::vector<Instruction> result;
    const auto add = [&](const auto& change) {
      result.push_back(x);
      change(result.back());
    };
    for (int by = -x.first; by <= program_.num_blocks() - x.last && x.last > x.first; ++by) {
      if (by != 0) add([&](Instruction& y) { y.first += by, y.last += by; });
    }
    for (int micro = 0; micro < program_.micro_batches && takes_micro_batch(x); ++micro) {
      if (micro != x.micro) add([&](Instruction& y) { y.micro = micro; });
    }
    for (int slot = 0; slot < program_.slots && x.op == Op::combine; ++slot) {
      if (slot != x.slot) add([&](Instruction& y) { y.slot = slot; });
    }
    for (int peer = 0; peer < program_.mesh.pp && is_transfer(x.op); ++peer) {
      if (peer != x.peer) add([&](Instruction& y) { y.peer = peer; });
    }
    for (const AxisSet axes : {kNoAxes, kReplicaAxis, kShardAxis, kInnerAxis, kDataAxes, kPipelineAxis,
                               kPipelineAxis | kShardAxis, kPipelineAxis | kDataAxes, kAllAxes}) {
      if (is_collective(x) && axes != x.axes) add([&](Instruction& y) { y.axes = axes; });
    }
    const std::pair<Payload, Payload> alike[] = {{Payload::activation, Payload::gradient}, {Payload::weights, Payload::sum}};
    for (const auto& [one, other] : alike) {
      if (!is_transfer(x.op) || (x.what != one && x.what != other)) continue;
      add([&](Instruction& y) { y.what = x.what == one ? other : one; });
    }
    for (const Payload what : {Payload::weights, Payload::optimizer}) {
      const bool moves_state = (x.op == Op::offload || x.op == Op::reload) && x.what != Payload::input;
      if (moves_state && what != x.what) add([&](Instruction& y) { y.what = what; });
    }
    return result;
  }

  std::optional<Damage> impatient() {
    const int i = any();
    if (list_[i].waits.empty()) return {};
    const int j = random_.of(list_[i].waits);
    InstructionList list = list_;
    std::erase(list[i].waits, j);
    if (Order(list).before(j, i)) return {};
    return with(fmt::format("{} no longer waits for {}", text(list_[i]), text(list_[j])), {list_[i].op, list_[j].op}, list);
  }

  std::optional<Damage> damaged(const std::string& what, std::vector<Op> ops, const InstructionList& list) const {
    return with(what, std::move(ops), link_waits(list, program_, program_.buffers_of(rank_)));
  }

  std::optional<Damage> with(const std::string& what, std::vector<Op> ops, InstructionList list) const {
    Damage result{fmt::format("rank {}{}: {}", rank_, alone_ ? " alone" : "", what), std::move(ops), program_};
    Program& program = result.program;
    if (alone_) {
      program.buffers.push_back(program.buffers_of(rank_));
      program.list_of_rank[rank_] = static_cast<int>(program.lists.size());
      program.lists.push_back(std::move(list));
    } else {
      program.lists[program.list_of_rank[rank_]] = std::move(list);
    }
    return result;
  }

  const Program& program_;
  Random& random_;
  int rank_;
  const InstructionList& list_;
  bool alone_;  // among several ranks that run this list
};

}  // namespace

std::optional<Damage> damage(const Program& program, DamageKind kind, Random& random) {
  return Damager(program, random).make(kind);
}

}  // namespace weft
