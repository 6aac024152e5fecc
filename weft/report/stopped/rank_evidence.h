// RankEvidence: where one rank stood when a run hung, as FOLDER/stopped/rank-N.json keeps it. docs/stopped.md describes the
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A call of a group.
struct CallEvidence {
  uint64_t number = 0;  ///< of the group's collectives, from 1, the same on all its ranks; of the messages between two ranks
  uint64_t order = 0;   ///< of the rank's calls on all its groups, from 1
  std::string operation = {};  ///< "all_reduce"
  std::string dtype = {};      ///< "float32"
  std::string reduce = {};     ///< "sum", "max", "min"; empty: it reduces nothing
  std::string name = {};       ///< "gradients"
  int64_t numel = 0;
  int peer = -1;           ///< world rank of the root, sender or receiver; -1: none
  double begun_s = 0.0;    ///< since 1970
  double ended_s = 0.0;    ///< 0: not ended
  std::string state = {};  ///< "scheduled": in the background; "started": the rank waits in it; "completed"

  bool is_message() const { return operation == "send" || operation == "receive"; }
  bool is_ended() const { return state == "completed"; }
};

/// `all_reduce sum of 8 float32 "gradients"`, as errors describe it.
std::string call_text(const CallEvidence& call);

/// The last calls of a group.
struct GroupEvidence {
  std::string id = {};       ///< the same on all its ranks, no other group's
  std::string axis = {};     ///< "dp+shard"
  std::string backend = {};  ///< "shm", "gloo", "nccl"
  std::vector<int> ranks = {};
  uint64_t collectives = 0;              ///< made by the rank
  std::vector<CallEvidence> calls = {};  ///< oldest first
};

/// A thread and the functions it is in, innermost first; none: it did not answer.
struct ThreadEvidence {
  int id = 0;
  std::string name = {};
  std::vector<std::string> functions = {};
};

/// What a rank knows of another that cannot say it itself.
struct LostRankEvidence {
  int rank = -1;
  std::string state = {};    ///< "stopped", "ended"
  std::string process = {};  ///< "process 4711 on host a"
};

struct RankEvidence {
  int rank = 0;
  int ranks = 1;
  int pid = 0;
  int thread = 0;  ///< that trains; 0: the main one
  std::string host = {};
  double time_s = 0.0;                  ///< since 1970
  std::string activity = {};            ///< besides steps: "an evaluation", "saving runs/a/step-10"; empty: none
  int64_t step = 0;                     ///< counted from 1; 0: before the first
  std::string operation = {};           ///< of the instruction: "forward"; empty: none runs
  std::optional<int> instruction = {};  ///< its index in the rank's list
  std::string block = {};               ///< "layers.2"; empty: of none
  int micro = -1;                       ///< micro-batch, from the rank's first; -1: of none

  // The wait that it shows to other ranks; `waits_in` is empty if it waits for none.
  std::string waits_in = {};  ///< `all_reduce of 8 float32 "gradients"`
  std::string wait_axis = {};
  std::vector<int> wait_ranks = {};  ///< of that axis
  std::vector<int> awaits = {};

  bool has_failed = false;  ///< it has found out itself, or been told
  int culprit = -1;         ///< the rank that its error blames
  std::string error = {};

  std::vector<LostRankEvidence> lost = {};
  std::vector<GroupEvidence> groups = {};
  std::vector<ThreadEvidence> threads = {};
};

std::string evidence_json(const RankEvidence& evidence);
/// Reads what is there; throws InputError, with `name`, for a text that is no evidence.
RankEvidence parse_evidence(std::string_view text, const std::string& name);

/// "forward of block 'layers.2', micro-batch 1", "an evaluation: forward of ...", "between steps".
std::string place_text(const RankEvidence& evidence);
/// Where the main thread is: "f()", the innermost function that is not C's or C++'s own; with "called from g()" if it is weft's
/// or a library's, and g the program's own. Empty: unknown.
std::string function_of(const RankEvidence& evidence);
/// The main thread; null: it is not known.
const ThreadEvidence* main_thread(const RankEvidence& evidence);

}  // namespace weft
