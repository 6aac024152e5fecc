// Random layouts verify; random damage to them is found, by name.
#include <gtest/gtest.h>

#include <set>

#include "tests/program/random_program.h"
#include "tests/program/verify/damage.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

constexpr unsigned kPrograms = test::cases(200);
constexpr int kDamages = 12;  // of each kind, per program, one by one

TEST(Property, random_layouts_verify) {
  for (const unsigned seed : test::seeds(kPrograms)) {
    test::Random random(seed);
    const RandomLayout layout = random_layout(random);
    SCOPED_TRACE(test::replay(seed) + ": " + text(layout.layout));
    const Program program = build_random(layout);
    ASSERT_NO_THROW(verify(program));
    double flops = 0;
    for (int place = 0; place < program.mesh.pp; ++place) {
      int64_t live = 0;
      for (const Instruction& x : program.lists[place]) {
        live += x.allocates - x.frees;
        ASSERT_GE(live, 0) << text(x);
        flops += is_backward(x.op) ? x.flops : 0;
      }
      ASSERT_EQ(live, 0) << "on pipeline rank " << place;
    }
    double once = 0;
    for (const BlockCost& block : layout.model.blocks) once += block.backward_flops;
    ASSERT_DOUBLE_EQ(flops, once * program.micro_batches);
  }
}

using Names = std::set<Defect>;

// Possible defects of a missing or repeated instruction.
Names names_of(Op op) {
  using enum Defect;
  switch (op) {
    case Op::load:
      return {use_before_load, repeated, bad_order};
    case Op::gather:
      return {not_gathered, bad_gather, buffer_conflict, bad_move};
    case Op::release:
      return {not_gathered, bad_gather, buffer_conflict};
    case Op::forward:
      return {missing_forward, missing_recompute, use_before_load, repeated};
    case Op::drop:
      return {repeated};
    case Op::offload:
    case Op::reload:
      return {bad_move};
    case Op::loss:
      return {backward_before_loss, early_reduce, repeated};
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
      return {missing_backward, double_backward};
    case Op::send:
      return {missing_send, repeated};
    case Op::receive:
      return {use_before_load, backward_before_loss, repeated};
    case Op::combine:
      return {bad_combine};
    case Op::reduce_scatter:
      return {missing_reduce, double_reduce, buffer_conflict, order_mismatch};
    case Op::reduce:
      return {missing_reduce, double_reduce};
    case Op::reduce_loss:
      return {missing_reduce, repeated};
    case Op::squares:
      return {bad_squares};
    case Op::norm:
      return {missing_norm, repeated};
    case Op::gather_gradients:
      return {bad_gather};
    case Op::update:
      return {missing_update, double_update};
  }
  return {};
}

// Transfers to and from a master besides activations: weights and sums.
Names names_with_master(Op op) {
  using enum Defect;
  if (op == Op::send)
    return {missing_reduce, double_reduce, early_reduce, not_gathered, transfer_mismatch, bad_order, out_of_range};
  if (op == Op::receive)
    return {not_gathered, early_reduce, early_norm, early_update, transfer_mismatch, bad_order, out_of_range};
  return {};
}

// An instruction for one block, rank or micro-batch is missing there and extra elsewhere, possibly in a wrong place.
Names names_of_misaddressed(Op op) {
  using enum Defect;
  Names names = names_of(op);
  names.insert({misplaced_block, missing_forward, missing_backward, bad_wait, bad_squares});
  if (is_transfer(op)) names.insert({transfer_mismatch, order_mismatch});
  if (op == Op::gather || op == Op::reduce_scatter) names.insert({wrong_axis, order_mismatch, early_reduce});
  if (op == Op::reduce || op == Op::reduce_loss) names.insert({wrong_axis});
  if (op == Op::norm) names.insert({wrong_axis, early_update});
  if (op == Op::gather_gradients) names.insert({wrong_axis, order_mismatch, early_update, bad_move});
  return names;
}

Names names_of(const Damage& damage, DamageKind kind) {
  using enum Defect;
  Names names = damage.program.copies > 1 ? names_with_master(damage.ops[0]) : Names();
  switch (kind) {
    case DamageKind::dropped:
    case DamageKind::doubled:
      names.merge(names_of(damage.ops[0]));
      return names;
    case DamageKind::misaddressed:
      names.merge(names_of_misaddressed(damage.ops[0]));
      return names;
    case DamageKind::swapped_loads:
      return {bad_order};
    case DamageKind::wrong_free:
      return {bad_bytes};
    case DamageKind::swapped:
    case DamageKind::impatient:
      break;
  }
  return {use_before_load, backward_before_loss, bad_order,         bad_combine,       early_reduce, early_norm,
          early_update,    not_gathered,         bad_gather,        bad_move,          repeated,     buffer_conflict,
          deadlock,        order_mismatch,       transfer_mismatch, missing_recompute, pending_send, bad_squares};
}

TEST(Property, random_damage_is_found_by_name) {
  int injected = 0;
  for (const unsigned seed : test::seeds(kPrograms)) {
    test::Random random(seed);
    const RandomLayout layout = random_layout(random);
    const Program program = build_random(layout);
    for (const DamageKind kind : kDamageKinds) {
      for (int i = 0; i < kDamages; ++i) {
        const std::optional<Damage> damaged = damage(program, kind, random);
        if (!damaged) continue;
        ++injected;
        SCOPED_TRACE(test::replay(seed) + ": " + text(layout.layout) + "; " + damaged->what);
        try {
          verify(damaged->program);
          ADD_FAILURE() << "not found";
        } catch (const VerifyError& error) {
          EXPECT_EQ(names_of(*damaged, kind).count(error.defect), 1U) << name(error.defect) << ": " << error.what();
          EXPECT_NE(std::string(error.what()).find("rank "), std::string::npos) << error.what();
        }
      }
    }
  }
  EXPECT_GE(injected, kDamages) << "random choices are real damage now and then";
}

}  // namespace
}  // namespace weft
