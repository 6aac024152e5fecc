// The calls of a rank in the form of PyTorch's Flight Recorder (a pickled dictionary), for its analyzer: python -m
// torch.distributed.flight_recorder.fr_trace FOLDER -p rank_
//
// The analyzer pairs calls of a process group by their numbers, and knows NCCL's names. So all operations bear those, whatever
// the back end; a barrier, and an allocation, is an "all_reduce_barrier"; and messages from one rank to another are a group of
// the two. Calls from before the oldest that every group's log still has are left out. A frame has the call's own name.
#pragma once

#include <string>

#include "weft/report/stopped/rank_evidence.h"

namespace weft {

std::string flight_recorder_dump(const RankEvidence& evidence);

}  // namespace weft
