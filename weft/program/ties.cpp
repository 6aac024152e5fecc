#include "weft/program/ties.h"

#include <algorithm>

namespace weft {

bool has_ties(const Program& program) {
  return std::any_of(program.block_uses.begin(), program.block_uses.end(),
                     [](const std::vector<int>& uses) { return !uses.empty(); });
}

std::vector<int> users_of(const Program& program, int block) {
  std::vector<int> users;
  for (int user = 0; user < program.num_blocks(); ++user) {
    const std::vector<int>& uses = program.block_uses[user];
    if (user == block || std::find(uses.begin(), uses.end(), block) != uses.end()) users.push_back(user);
  }
  return users;
}

std::vector<std::vector<int>> users_run(const Program& program, const InstructionList& list) {
  std::vector<bool> runs(program.num_blocks(), false);
  for (const Instruction& x : list) {
    if (x.op == Op::forward) runs[x.first] = true;
  }
  std::vector<std::vector<int>> users(program.num_blocks());
  const auto add = [&](int used, int user) {
    if (users[used].empty() || users[used].back() != user) users[used].push_back(user);
  };
  for (int user = 0; user < program.num_blocks(); ++user) {
    if (!runs[user]) continue;
    add(user, user);
    for (const int used : program.block_uses[user]) add(used, user);
  }
  return users;
}

int tied_rows(const Program& program, int block) {
  if (!program.uses_apart) return 1;
  const int uses = static_cast<int>(users_of(program, block).size());
  return uses > 2 ? uses : 1;
}

}  // namespace weft
