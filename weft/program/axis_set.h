// AxisSet: the mesh axes of a collective. A value type; any combination of axes is valid.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// An axis of the mesh, outermost first. `outer` and `inner` together are the shard axis: the `inner` ranks are neighbours on
/// one host that may keep whole weights divided among them (Program::inner_shards).
enum class MeshAxis : uint8_t { pp, dp, outer, inner, cp, tp };
inline constexpr int kNumMeshAxes = 6;  ///< size of MeshAxis

/// A set of axes. It joins the ranks that differ only in their places on these axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(MeshAxis axis)
      : bits_(static_cast<uint8_t>(1U << static_cast<unsigned>(axis))) {}  ///< implicit: a set of one
  /// Returns the set with these bits(); any number is accepted.
  static constexpr AxisSet of_bits(uint8_t bits) { return AxisSet(bits, 0); }

  constexpr bool empty() const { return bits_ == 0; }                                        ///< true if it has no axes
  constexpr bool has(AxisSet other) const { return (bits_ & other.bits_) == other.bits_; }   ///< true if all are in it
  constexpr bool meets(AxisSet other) const { return (bits_ & other.bits_) != 0; }           ///< true if any is in it
  constexpr bool is_known() const { return bits_ < (1U << kNumMeshAxes); }                   ///< true if it has no other bits
  constexpr uint8_t bits() const { return bits_; }                                           ///< 1 << axis for each
  constexpr AxisSet operator|(AxisSet other) const { return of_bits(bits_ | other.bits_); }  ///< the axes of either
  constexpr AxisSet operator&(AxisSet other) const { return of_bits(bits_ & other.bits_); }  ///< the axes of both
  constexpr auto operator<=>(const AxisSet&) const = default;                                ///< by bits()

 private:
  constexpr AxisSet(unsigned bits, int /*unused*/) : bits_(static_cast<uint8_t>(bits)) {}
  uint8_t bits_ = 0;
};

inline constexpr AxisSet kNoAxes;                                                  ///< this rank alone
inline constexpr AxisSet kPipelineAxis = MeshAxis::pp;                             ///< the stages of a pipeline
inline constexpr AxisSet kReplicaAxis = MeshAxis::dp;                              ///< replicas of the model
inline constexpr AxisSet kInnerAxis = MeshAxis::inner;                             ///< neighbours on the shard axis
inline constexpr AxisSet kShardAxis = AxisSet(MeshAxis::outer) | MeshAxis::inner;  ///< ranks that share a replica's state
inline constexpr AxisSet kDataAxes = kReplicaAxis | kShardAxis;                    ///< ranks that read different samples
inline constexpr AxisSet kContextAxis = MeshAxis::cp;                              ///< ranks that share each sample's sequence
inline constexpr AxisSet kTensorAxis = MeshAxis::tp;                               ///< ranks that share each block's layers
inline constexpr AxisSet kAllAxes = AxisSet::of_bits((1U << kNumMeshAxes) - 1);    ///< the whole world

/// Name of a set, joined as in Mesh: "dp+shard"; "inner shard" for the inner axis alone, "none" for no axis.
std::string name(AxisSet axes);

}  // namespace weft
