// Checks every operation of a group: all_reduce (sum, max, min), reduce_scatter, all_gather, broadcast, all_to_all, send and
// receive, at 4 sizes and in 3 types, against the values that they must give. Values are small integers whose sums every type
// holds exactly, so results are exact in any order of summation.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <string>
#include <vector>

#include "weft/comm/call/group_options.h"
#include "weft/comm/group.h"
#include "weft/comm/mesh.h"
#include "weft/train/check/check_line.h"

namespace weft {

/// What a rank found in a group.
struct CollectiveFindings {
  int calls = 0;           ///< operations x sizes x types
  int first_wrong = -1;    ///< index of the first call with a wrong value on this rank, in the order of calls; -1: none
  std::string wrong = {};  ///< "all_reduce sum of 1000 bfloat16: element 13 is 7, not 9"
};

/// Runs the calls, with tensors on `device`. Collective over the group; wrong values do not end it. Throws CommError.
CollectiveFindings check_collectives(const Group& group, at::Device device);

/// A group to check. Its back end may refuse the device.
struct CheckedGroup {
  std::string backend;  ///< name of its line: "shm", "gloo"
  std::string members;  ///< "all 4 ranks", "2 of each host"
  Mesh mesh;
  Axis axis;
  GroupOptions options;
};

/// The groups of a world by back end, without the device's own engine if `backend` lets ranks share a device: over all ranks;
/// over the ranks of each host and one of each host or, on one host, over neighbours and over ranks at a distance.
struct GroupsToCheck {
  std::vector<CheckedGroup> groups;
  std::vector<CheckLine> missing;  ///< back ends that have no group here
};
GroupsToCheck groups_to_check(const World& world, BackendKind backend, at::Device device, std::chrono::milliseconds timeout);

/// Makes and checks all of them, and gathers what the ranks found: on rank 0 a line per back end, which names the first wrong
/// call and the first rank that has it; on other ranks nothing. Collective over the world. Throws CommError if ranks fail to
/// finish a call.
std::vector<CheckLine> check_groups(const World& world, BackendKind backend, at::Device device,
                                    std::chrono::milliseconds timeout);

}  // namespace weft
