// One injected change to a correct program, and a check that verify names it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/program/toy.h"
#include "weft/program/passes/waits.h"
#include "weft/program/verify/verify.h"

namespace weft {

using List = InstructionList;

// Changes to a list. Moved instructions get wrong waits, for expect_found() to link again.
inline void drop(List& list, int i) { list.erase(list.begin() + i); }
inline void repeat(List& list, int i) { list.insert(list.begin() + i + 1, List::value_type(list[i])); }
inline void move(List& list, int from, int to) {
  const Instruction x = list[from];
  list.erase(list.begin() + from);
  list.insert(list.begin() + to, x);
}
inline void stop_waiting(List& list, int who, int for_whom) { std::erase(list[who].waits, for_whom); }

/// Expects verify to refuse with this defect, at the first rank that has it, in a text that names the rank and `says`.
inline void expect_defect(const Program& program, Defect defect, const std::string& says = "", int rank = 0) {
  try {
    verify(program);
    ADD_FAILURE() << "not found: " << name(defect);
  } catch (const VerifyError& error) {
    EXPECT_EQ(name(error.defect), name(defect)) << error.what();
    EXPECT_EQ(error.rank, rank) << error.what();
    EXPECT_NE(std::string(error.what()).find(fmt::format("rank {}", rank)), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

struct Spoiling {
  const char* what;
  Defect defect;
  std::function<void(List&)> spoil;
  const char* says = "";
  int place = 0;  ///< the pipeline rank whose list is spoiled
  int rank = -1;  ///< the world rank that has the defect; -1: the first at that place
};

enum class Waits { linked_again, as_spoiled };

/// Spoils all ranks at one pipeline place alike.
inline void expect_found(Program program, const Spoiling& c, Waits waits) {
  SCOPED_TRACE(c.what);
  List list = program.lists[c.place];
  c.spoil(list);
  if (waits == Waits::linked_again) list = link_waits(list, program, program.buffers[c.place]);
  const int copies = program.world_size() / program.mesh.pp;
  for (int rank = c.place * copies; rank < (c.place + 1) * copies; ++rank) program.lists[program.list_of_rank[rank]] = list;
  expect_defect(program, c.defect, c.says, c.rank < 0 ? c.place * copies : c.rank);
}

inline void expect_all_found(const Program& program, const std::vector<Spoiling>& cases, Waits waits = Waits::linked_again) {
  verify(program);
  for (const Spoiling& c : cases) expect_found(program, c, waits);
}

}  // namespace weft
