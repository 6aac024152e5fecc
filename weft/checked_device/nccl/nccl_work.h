// c10d's Work of a launch of several ranks.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/checked_device/nccl/communicator.h"

namespace c10d {
class Work;
enum class OpType : std::uint8_t;
}  // namespace c10d

namespace weft::checked_device {

/// `in_graph`: the launch is part of a graph, whose replays give `launched` new values. wait() makes the current stream of the
/// launch's device wait. Keeps `kept` until then; if it is dropped before, their memory is recorded on `stream`, the launch's.
c10::intrusive_ptr<c10d::Work> make_nccl_work(int rank, c10d::OpType operation, std::shared_ptr<Launched> launched,
                                              const c10::Stream& stream, std::vector<at::Tensor> kept, bool in_graph = false);

}  // namespace weft::checked_device
