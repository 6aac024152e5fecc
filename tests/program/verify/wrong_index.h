// Sets one or a few random fields of a program to arbitrary numbers, as in a hand-written program.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/seeds.h"
#include "weft/program/program.h"

namespace weft {

class FieldDamage {
 public:
  FieldDamage(Program& program, test::Random& random) : program_(program), random_(random) {}

  void change_some() {
    for (int times = 1 + (random_.one_in(3) ? random_.below(4) : 0); times > 0; --times) change();
  }

 private:
  template <class T>
  void number(T& value) {
    constexpr int64_t kEdges[] = {
        -1, 0, 1, 2, 7, 64, 1000, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 40};
    switch (random_.below(3)) {
      case 0:
        // Unsigned, so that it may wrap.
        value = static_cast<T>(static_cast<uint64_t>(value) + (random_.one_in(2) ? 1 : UINT64_MAX));
        return;
      case 1:
        value = static_cast<T>(kEdges[random_.below(std::size(kEdges))]);
        return;
      default:
        value = static_cast<T>(random_.below(12));
    }
  }
  template <class Enum>
  void kind(Enum& value) {
    value = static_cast<Enum>(random_.one_in(4) ? random_.below(256) : random_.below(20));
  }
  template <class T>
  void numbers(std::vector<T>& values) {
    const int choice = values.empty() ? 0 : random_.below(8);
    if (choice == 0) return values.push_back(static_cast<T>(random_.below(5) - 1));
    if (choice == 1) return values.pop_back();
    if (choice == 2) return values.clear();
    number(values[random_.below(static_cast<int>(values.size()))]);
  }
  template <class T>
  void sizes(std::vector<T>& values) {
    if (values.empty() || random_.one_in(3)) return values.resize(values.size() + 1 + random_.below(2));
    random_.one_in(4) ? values.clear() : values.pop_back();
  }
  template <class T>
  T* any(std::vector<T>& values) {
    return values.empty() ? nullptr : &values[random_.below(static_cast<int>(values.size()))];
  }

  void change() {
    if (random_.below(3) > 0) return change_instruction();
    switch (random_.below(10)) {
      case 0:
        return change_count();
      case 1:
        return numbers(program_.block_numel);
      case 2:
        if (auto* uses = any(program_.block_uses)) numbers(*uses);
        return;
      case 3:
        if (auto* holders = any(program_.holders)) numbers(*holders);
        return;
      case 4:
        if (Buffers* buffers = any(program_.buffers)) numbers(random_.one_in(2) ? buffers->weight : buffers->gradient);
        return;
      case 5:
        return numbers(program_.list_of_rank);
      case 6:
        return change_sizes();
      case 7:
        return kind(program_.shard_level);
      case 8:
        return change_call();
      default:
        return number(
            *any_of({&program_.mesh.pp, &program_.mesh.dp, &program_.mesh.shard, &program_.mesh.cp, &program_.mesh.tp}));
    }
  }

  int* any_of(const std::vector<int*>& all) { return random_.of(all); }

  void change_count() {
    number(*any_of({&program_.shards, &program_.inner_shards, &program_.weight_bytes, &program_.gradient_bytes,
                    &program_.micro_batches, &program_.slots, &program_.replicas, &program_.copies}));
    program_.needs_norm = random_.one_in(2);
    program_.head_takes_targets = random_.one_in(4);
  }

  void change_call() {
    InnerCalls* calls = any(program_.block_calls);
    InnerCall* call = any(calls == nullptr || random_.one_in(4) ? program_.loss_calls
                          : random_.one_in(2)                   ? calls->forward
                                                                : calls->backward);
    if (call == nullptr)
      return sizes(random_.one_in(2) ? program_.loss_calls : calls == nullptr ? program_.loss_calls : calls->input);
    switch (random_.below(3)) {
      case 0:
        call->axes = AxisSet::of_bits(static_cast<uint8_t>(random_.below(256)));
        return;
      case 1:
        return number(call->rounds);
      default:
        return number(call->wire_bytes);
    }
  }

  void change_sizes() {
    switch (random_.below(6)) {
      case 0:
        return sizes(program_.block_names);
      case 4:
        return sizes(program_.block_calls);
      case 1:
        return sizes(program_.block_uses);
      case 2:
        return sizes(program_.holders);
      case 3:
        return sizes(program_.buffers);
      default:
        return sizes(program_.lists);
    }
  }

  void change_instruction() {
    InstructionList* list = any(program_.lists);
    Instruction* x = list == nullptr ? nullptr : any(*list);
    if (x == nullptr) return;
    switch (random_.below(12)) {
      case 0:
        return kind(x->op);
      case 1:
        return kind(x->lane);
      case 2:
        x->axes = AxisSet::of_bits(static_cast<uint8_t>(random_.below(256)));
        return;
      case 3:
        return kind(x->what);
      case 4:
        return numbers(x->waits);
      case 5:
        x->flops = random_.one_in(2) ? std::numeric_limits<double>::quiet_NaN() : random_.one_in(2) ? 1e300 : -1e300;
        return;
      case 6: {
        int64_t* const bytes[] = {&x->wire_bytes, &x->copy_bytes, &x->peak, &x->allocates, &x->frees};
        return number(*bytes[random_.below(5)]);
      }
      case 7:  // to another place: both ends of its range
        x->first = random_.below(9) - 1;
        x->last = x->first + random_.below(3);
        return;
      default:
        return number(*any_of({&x->first, &x->last, &x->micro, &x->slot, &x->peer}));
    }
  }

  Program& program_;
  test::Random& random_;
};

}  // namespace weft
