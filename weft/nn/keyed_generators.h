// Keyed generators: the draws of any block from LibTorch's default generators are keyed like weft's own random numbers
// (nn/random.h), so the numbers are the same on any number of ranks, and when recomputed.
//
// The generators are reseeded for a call and their state is restored after it, so code outside sees no change. This costs 2
// microseconds per call. Ranks that are threads of one process share its generators, so overlapping calls are refused if any of
// them draws: it might draw another call's numbers.
#pragma once

#include <c10/util/FunctionRef.h>

#include <memory>
#include <string>

#include "weft/nn/block.h"
#include "weft/nn/random.h"

namespace weft {

/// A block that names its own random stream.
class HasRandomName {
 public:
  virtual ~HasRandomName() = default;
  virtual std::string random_name() const = 0;  ///< empty: the name of its NamedBlock
};

/// Returns the block's random_name(); empty for a block that is not a HasRandomName.
std::string random_name_of(const Block& block);

/// Runs `call` with the default generators of the CPU and of `device` seeded by the key. `what` names it in errors ("block
/// 'h.3'"). Throws InputError on a device whose generator cannot be seeded, and if ranks of one process draw at the same time.
void with_keyed_generators(RandomKey key, const std::string& what, at::Device device, c10::function_ref<void()> call);

/// Until the end of its scope, with_keyed_generators() of this thread notes in `first`, if that is empty, which call drew from
/// a device's generator ("block 'h.3'"), at the cost of two more reads of its state per call. In a capture (comm/graph) it
/// leaves that generator alone.
class DrawWatch {
 public:
  explicit DrawWatch(std::string& first);  ///< `first` must outlive it
  ~DrawWatch();
  DrawWatch(const DrawWatch&) = delete;
  DrawWatch& operator=(const DrawWatch&) = delete;

 private:
  std::string* outer_;
};

/// Saved state of the CPU's and a device's default generators, for drawing the same numbers again.
class GeneratorState {
 public:
  explicit GeneratorState(at::Device device);  ///< the current state
  ~GeneratorState();
  void restore() const;  ///< resets the generators to this state

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace weft
