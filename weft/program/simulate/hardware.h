// Hardware: devices and links, for simulation. Plain data; recipe/toml/hardware_file.h reads it from TOML.
//
// Everything defaults to zero cost, so code sets only what matters. A link missing from a file is unknown: a program that uses
// it cannot be simulated.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/program/simulate/device_costs.h"

namespace weft {

inline constexpr double kFree = std::numeric_limits<double>::infinity();  ///< an infinite rate

inline constexpr double kMinRate = 1.0;   ///< smallest rate or size
inline constexpr double kMaxRate = 1e18;  ///< largest except kFree: a thousand times today's devices

/// A link for bytes.
struct Link {
  double latency_s = 0.0;      ///< time per message, or per round of a collective
  double bytes_per_s = kFree;  ///< rate in one direction
  bool is_known = true;        ///< false: a program that uses it cannot be simulated
  /// Time to move `bytes`.
  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

/// Measured times of a block on one micro-batch; where present they replace estimates from operations and bytes.
struct BlockTime {
  std::string name;                       ///< block name; a trailing '*' matches all blocks with that prefix
  std::optional<double> forward_s = {};   ///< time of a forward
  std::optional<double> backward_s = {};  ///< time of a whole backward
  std::optional<double> input_s = {};     ///< the part that computes the gradient of the block's input
  std::optional<double> weight_s = {};    ///< the rest of the backward
};

/// CPU cores of a host, which its ranks share (shared_cores.h).
struct HostCores {
  int64_t per_host = 0;        ///< number of cores; 0: each rank has its own
  double thread_power = 1.0;   ///< t threads of a rank compute t^thread_power times as fast as one
  double network_share = 0.0;  ///< part of a core that a rank's traffic with other hosts takes while it is under way
  int threads = 1;             ///< per rank: set by the recipe, not in files
};

/// Devices and the links between them.
struct Hardware {
  std::string name = "ideal";  ///< name in reports
  std::string kind = {};       ///< kind of the devices, one of kTargetDevices (base/target_device.h); empty: not said

  double flops = kFree;               ///< peak float32 rate of a device
  double narrow_flops = kFree;        ///< peak rate in bf16 and fp16
  double efficiency = 1.0;            ///< fraction of the peak that forward and backward reach
  double memory_bytes = kFree;        ///< memory of a device
  double memory_bytes_per_s = kFree;  ///< memory bandwidth of a device
  double launch_s = 0.0;              ///< overhead per compute instruction
  /// Costs of operators, which replace `efficiency` where a program has its operators (Program::operators).
  std::optional<OperatorCosts> operators = {};
  /// Costs of rings, by size; empty: each takes its rounds and bytes alone. Those in two levels do anyway.
  std::optional<CollectiveCosts> collectives = {};
  std::optional<SoftwareCosts> software = {};  ///< of other software; empty: weft's operators. Needs `operators`
  std::optional<double> host_launch_s = {};    ///< host's time per launch (program/launches.h); empty: launches take no time
  std::optional<double> graph_launch_s = {};   ///< host's time to launch a captured graph; empty: none is simulated
  std::optional<double> host_wait_s = {};      ///< from the end of what the host waits for until it goes on; empty: 0
  /// Collectives, transfers and copies overlap compute. False: they take the compute lane's time, on both sides of a transfer,
  /// as on a CPU without a spare core.
  bool overlap = true;
  /// Collectives across hosts go in two levels, as weft's do on CPUs (comm/two_level/host_operations.h): data is reduced inside
  /// each host before it crosses. They and transfers between hosts overlap compute regardless of `overlap`, as a separate
  /// thread waits for the network. False: rings, as in NCCL.
  bool two_levels = false;
  bool captured = false;       ///< a step is one launch, of a graph (run.graph): not in files
  bool narrow_across = false;  ///< with two_levels, float32 gradient sums cross in bfloat16: set by the layout, not in files

  int ranks_per_host = 1;  ///< consecutive ranks
  HostCores cores = {};    ///< of each host
  Link intra_host = {};    ///< link from a rank to other ranks on its host
  Link inter_host = {};    ///< link from a rank to other hosts: its share of the host's network ports
  Link offload = {};       ///< link to the slower memory of offload

  std::optional<int64_t> micro_batch = {};          ///< micro-batch size of the times below; empty: any
  std::vector<BlockTime> blocks = {};               ///< times of the measured model's blocks; may be empty
  std::optional<double> loss_s = {};                ///< time of the loss per micro-batch
  std::optional<double> update_s_per_element = {};  ///< time of the update per element that the rank owns

  /// Peak operations per second for weights of `weight_bytes` bytes per element.
  double peak_flops(int weight_bytes) const { return weight_bytes < 4 ? narrow_flops : flops; }
};

/// Round numbers for drawings without a hardware file: 100 TFLOP/s, 1 TB/s of memory, 8 ranks per host, 100 GB/s inside it and
/// 25 GB/s between hosts.
Hardware nominal_hardware();

/// Hardware on which only operations take time, 1 s per 1e12, so that simulate() accepts a step of any model: only ratios are
/// meaningful.
Hardware counted_operations();

/// Entry of `hardware.blocks` for a block: its exact name, or else the longest match with a '*'; null if there is no match.
const BlockTime* find_block_time(const Hardware& hardware, std::string_view block);

/// Throws InputError naming the section to add, for an unknown link of the hardware; `section` is the link's name in a file,
/// `user` names what uses the link.
void check_known(const Hardware& hardware, const Link& link, std::string_view section, std::string_view user);

/// Throws InputError for a time of a block (by name, or with a '*') that the model does not have. Further blocks of a numbered
/// row are accepted, as from a deeper model: h.7 if the model ends at h.5.
void check_block_times(const Hardware& hardware, const std::vector<std::string>& block_names);

/// A note for reports: "no times of blocks h.6 to h.11: counted operations"; empty if all blocks have times or all lack them.
std::string untimed_blocks_text(const Hardware& hardware, const std::vector<std::string>& block_names);

/// Throws InputError if the hardware's times were measured with another micro-batch size.
void check_micro_batch(const Hardware& hardware, int64_t micro_batch);

/// The hardware's name, for errors: "hardware 'h100'"; long names are shortened.
std::string named(const Hardware& hardware);

/// Throws InputError for a rate or a size outside 1 to 1e18 that is not kFree, a time that is negative or not finite, or an
/// efficiency outside (0, 1].
void check_hardware(const Hardware& hardware);

}  // namespace weft
