// Writes dumps of two hangs of four ranks, for fr_trace_test.py: FOLDER/missing, where rank 3 has not come to call 5 of "dp",
// and FOLDER/other, where rank 1 makes another call. Messages go around between the ranks of "pp".
#include <filesystem>
#include <fstream>
#include <string>

#include "weft/report/stopped/flight_recorder.h"

namespace {

weft::CallEvidence call(uint64_t order, uint64_t number, const std::string& operation, const std::string& state) {
  const double begun_s = 1764583200.0 + static_cast<double>(order);
  return {.number = number,
          .order = order,
          .operation = operation,
          .dtype = operation == "barrier" ? "uint8" : "bfloat16",
          .reduce = operation == "all_reduce" || operation == "reduce_scatter" ? "sum" : "",
          .name = "gradients of " + operation,
          .numel = operation == "barrier" ? 0 : 10,
          .begun_s = begun_s,
          .ended_s = state == "completed" ? begun_s + 0.5 : 0.0,
          .state = state};
}

void write(const std::filesystem::path& folder, int rank, bool is_missing, bool is_other) {
  weft::RankEvidence evidence{.rank = rank, .ranks = 4};
  weft::GroupEvidence dp{.id = "0", .axis = "dp", .backend = "gloo", .ranks = {0, 1, 2, 3}}, pp = dp;
  pp.id = "1";
  pp.axis = "pp";
  const char* operations[] = {"all_reduce", "reduce_scatter", "all_gather", "barrier"};
  uint64_t order = 0;
  for (uint64_t number = 1; number <= 4; ++number)
    dp.calls.push_back(call(++order, number, operations[number - 1], "completed"));
  weft::CallEvidence send = call(++order, 1, "send", "completed"), receive = call(++order, 1, "receive", "completed");
  send.peer = (rank + 1) % 4;
  receive.peer = (rank + 3) % 4;
  pp.calls = {send, receive};
  if (!is_missing) dp.calls.push_back(call(++order, 5, is_other ? "broadcast" : "all_to_all", "started"));
  dp.collectives = dp.calls.size();
  evidence.groups = {dp, pp};
  std::filesystem::create_directories(folder);
  std::ofstream(folder / ("rank_" + std::to_string(rank)), std::ios::binary) << weft::flight_recorder_dump(evidence);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  for (int rank = 0; rank < 4; ++rank) {
    write(folder / "missing", rank, rank == 3, false);
    write(folder / "other", rank, false, rank == 1);
  }
}
