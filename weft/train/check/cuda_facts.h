// What NVIDIA's libraries tell about a machine's GPUs. The only file of `weft check` that names CUDA. The libraries are opened
// at run time, so a build without CUDA also finds GPUs that it cannot use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/train/check/check_line.h"

namespace weft {

/// One GPU that this process sees.
struct CudaGpu {
  std::string name;
  int clock_mhz = 0, most_mhz = 0;  ///< SM clock; 0: unknown
  uint64_t slowed_by = 0;           ///< NVML's clocks event reasons, a bit each
  int64_t memory_errors = 0;        ///< uncorrected ECC errors since the driver started
  std::vector<bool> reaches = {};   ///< peer access, by GPU
};

struct CudaFacts {
  std::string driver;         ///< "570.86.15"
  int driver_cuda = 0;        ///< newest CUDA that the driver runs: 12080 is 12.8
  int runtime_cuda = 0;       ///< CUDA of the loaded LibTorch; 0: it has none
  std::string nccl;           ///< loaded NCCL; empty: none
  std::vector<CudaGpu> gpus;  ///< in CUDA's order, as CUDA_VISIBLE_DEVICES selects
};

/// Asks the driver; nullopt without one.
std::optional<CudaFacts> cuda_facts();

/// Lines "driver" (it is new enough for LibTorch), "peer access" between the first `used` GPUs, and "device clocks" (GPUs that
/// are slowed down by heat or power, or have memory errors).
std::vector<CheckLine> cuda_lines(const CudaFacts& facts, size_t used);

/// "CUDA 12.8, driver 570.86.15, NCCL 2.27.3": versions that must be the same on all hosts.
std::string cuda_versions(const CudaFacts& facts);

}  // namespace weft
