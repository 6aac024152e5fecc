// Hardware: what a simulation needs to know of devices and of the links between them. Plain data; recipe/toml/hardware_file.h
// reads it from TOML.
//
// Everything defaults to what costs nothing, so that one made in code names only what matters to it. A file that leaves out a
// link does not know it: a program that uses it is not simulated.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr double kFree = std::numeric_limits<double>::infinity();  ///< a rate at which nothing takes time

inline constexpr double kLeastRate = 1.0;  ///< the least rate or size
inline constexpr double kMostRate = 1e18;  ///< the most that is not kFree, a thousand times what a device has today

/// A way for bytes.
struct Link {
  double latency_s = 0.0;      ///< of each message, or round of a collective
  double bytes_per_s = kFree;  ///< one way
  bool is_known = true;        ///< false: a program that uses it is not simulated
  /// What moving `bytes` takes.
  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

/// Measured times of a block on one micro-batch: they replace what operations and bytes would give, where they are there.
struct BlockTime {
  std::string name;                       ///< of the block; with a '*' behind it, of all blocks whose names begin so
  std::optional<double> forward_s = {};   ///< each time that it runs
  std::optional<double> backward_s = {};  ///< whole
  std::optional<double> input_s = {};     ///< the part of it that makes the gradient of the block's input
  std::optional<double> weight_s = {};    ///< the rest
};

/// Devices and the links between them.
struct Hardware {
  std::string name = "ideal";  ///< for people

  double flops = kFree;               ///< a device's peak in float32
  double narrow_flops = kFree;        ///< the same in bf16 and fp16
  double efficiency = 1.0;            ///< share of the peak that forward and backward reach
  double memory_bytes = kFree;        ///< of a device
  double memory_bytes_per_s = kFree;  ///< that go through a device's memory
  double launch_s = 0.0;              ///< added to every instruction that computes
  /// Collectives, transfers and copies run beside compute. False: they take the compute lane's time, on both sides of a
  /// transfer, as on a CPU without a spare core.
  bool overlap = true;
  /// Collectives over hosts go in two levels, as weft's do on CPUs (comm/two_level/host_operations.h): what crosses is added up
  /// inside each host before. They and transfers between hosts run beside compute whatever `overlap` says: a thread of their
  /// own waits for the network. False: rings, as of NCCL.
  bool two_levels = false;
  bool narrow_across = false;  ///< with two_levels, sums of gradients in float32 cross in bfloat16: a layout's wish, in no file

  int ranks_per_host = 1;  ///< neighbours by rank
  Link intra_host = {};    ///< of a rank to others of its host
  Link inter_host = {};    ///< of a rank to other hosts: its share of the host's network ports
  Link offload = {};       ///< to the slower memory that state is offloaded to

  std::optional<int64_t> micro_batch = {};          ///< samples of the micro-batch that the times below are of; left out: any
  std::vector<BlockTime> blocks = {};               ///< of the model that was measured; may be none
  std::optional<double> loss_s = {};                ///< of a micro-batch
  std::optional<double> update_s_per_element = {};  ///< of what the rank owns

  /// Peak operations a second for weights of so many bytes an element.
  double peak_flops(int weight_bytes) const { return weight_bytes < 4 ? narrow_flops : flops; }
};

/// Round numbers for drawings that no file was given for: 100 TFLOP/s, 1 TB/s of memory, 8 ranks a host, 100 GB/s inside it and
/// 25 GB/s between hosts.
Hardware nominal_hardware();

/// Hardware on which operations alone take time, 1 s for 1e12 of them, so that a step of any model has one that simulate()
/// takes: only ratios mean anything.
Hardware counted_operations();

/// The entry of `hardware.blocks` for a block: that with its own name, or else the longest that matches with a '*'; null
/// without one.
const BlockTime* find_block_time(const Hardware& hardware, std::string_view block);

/// Throws InputError, naming the section to add, for a link of the hardware that is not known; `section` is its name in
/// a file, `user` what needs it.
void check_known(const Hardware& hardware, const Link& link, std::string_view section, std::string_view user);

/// Throws InputError for a time of a block, by name or with a '*', that the model does not have. One more of a row of blocks is
/// let pass, as of a deeper model: h.7 where the model ends at h.5.
void check_block_times(const Hardware& hardware, const std::vector<std::string>& block_names);

/// A note for people: "no times of blocks h.6 to h.11: counted operations"; empty where all blocks have times or none has.
std::string untimed_blocks_text(const Hardware& hardware, const std::vector<std::string>& block_names);

/// Throws InputError where the hardware's times were measured with micro-batches of another size.
void check_micro_batch(const Hardware& hardware, int64_t micro_batch);

/// The hardware by its name, for errors: "hardware 'h100'"; a long name in part.
std::string named(const Hardware& hardware);

/// Throws InputError for a rate or a size outside 1 to 1e18 that is not kFree, a time that is negative or not finite, an
/// efficiency outside (0, 1].
void check_hardware(const Hardware& hardware);

}  // namespace weft
