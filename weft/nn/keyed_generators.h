// Keyed generators: what a block draws from LibTorch's default generators is keyed, as weft's own random numbers are
// (nn/random.h), whatever the block is: the same numbers on any number of ranks, and when it is computed again.
//
// The generators are reseeded for a call and have their own state back after it, so who draws from them outside finds them as
// if nothing had run. Costs 2 microseconds a call. Ranks that are threads of one process share its generators: calls that
// overlap are refused if any of them draws, as it might draw the other's numbers.
#pragma once

#include <c10/util/FunctionRef.h>

#include <memory>
#include <string>

#include "weft/nn/block.h"
#include "weft/nn/random.h"

namespace weft {

/// A block whose random numbers have a name of their own.
class DrawsAs {
 public:
  virtual ~DrawsAs() = default;
  virtual std::string random_name() const = 0;  ///< empty: the NamedBlock's
};

/// The block's name for its random numbers; empty where it has none of its own.
std::string random_name_of(const Block& block);

/// Runs `call`, which `what` names for people ("block 'h.3'"), with the default generators of the CPU and of `device` seeded
/// by the key. Throws InputError on a device whose generator cannot be seeded, and where ranks of one process draw at once.
void with_keyed_generators(RandomKey key, const std::string& what, at::Device device, c10::function_ref<void()> call);

/// The state of these generators, kept to draw the same numbers once more.
class GeneratorState {
 public:
  explicit GeneratorState(at::Device device);  ///< as it is now
  ~GeneratorState();
  void restore() const;  ///< so they draw from here on what they drew then

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace weft
