// Checks of ids that select rows of a table or classes: tokens, positions, targets.
//
// On the CPU the lookup itself refuses an id out of range. On another device such a lookup is a device assert, after which the
// process cannot use the device, and the host does not know the ids. So checked_ids() clamps them there, and notes on the
// device, without waiting for it, the first that was out of range. The host reads the notes with the loss
// (engine/step_loss.cpp) and throws before any weight has changed, on all ranks, as mark() spoils the losses that they sum.
// Cost: one launch per call, and two numbers until the notes are read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

/// Notes that the host has not read yet.
class IdChecks {
 public:
  /// Takes the notes of this thread's calls of checked_ids() during its lifetime.
  class Scope {
   public:
    /// `context` (step, samples) and `caller` ("the loss") appear in errors and must outlive the scope.
    Scope(IdChecks& checks, const Context& context, std::string_view caller);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend at::Tensor checked_ids(std::string_view, const at::Tensor&, int64_t, std::optional<int64_t>);
    IdChecks& checks_;
    const Context& context_;
    std::string_view caller_;
    Scope* before_;
  };

  /// Clamps without notes on this thread during its lifetime: a recompute, whose first run has noted the ids.
  class Repeated {
   public:
    Repeated();
    ~Repeated();
    Repeated(const Repeated&) = delete;
    Repeated& operator=(const Repeated&) = delete;

   private:
    bool before_;
  };

  /// Makes `values`, float64 on the notes' device, NaN if an id was out of range, without waiting for the device.
  void mark(const at::Tensor& values) const;
  /// Copies int64 tensors to the host, flat and one after the other, together with the notes: one wait. Throws InputError for
  /// the first id out of range.
  at::Tensor to_host(std::vector<at::Tensor> values);
  /// The same for one number of any floating-point type.
  double number(const at::Tensor& value);
  /// Reads the notes alone; without notes, no copy.
  void read();
  /// Drops the notes, as those of a failed step.
  void clear();

 private:
  friend at::Tensor checked_ids(std::string_view, const at::Tensor&, int64_t, std::optional<int64_t>);
  struct Note {
    std::string where;  ///< step, samples and caller
    std::string what;
    std::vector<int64_t> sizes;  ///< of the ids
    int64_t count = 0;
  };
  at::Tensor place_for(Note note, at::Device device);
  void judge(const int64_t* found);

  std::vector<Note> notes_;
  std::vector<at::Tensor> found_;  ///< [kNotes, 2] each (clamp_ids()), as many as the notes need
};

/// Returns ids, int64 or int32 of any sizes, as they may be looked up among `count` rows or classes; `ignored` marks ids that
/// are not looked up. On the CPU and the meta device (where it counts as a launch of a GPU): unchanged, for the lookup to
/// refuse. On other devices: clamped to [0, count), and noted in the thread's scope; outside any scope the host waits for the
/// device, and InputError is thrown for an id out of range. `what` names the ids in errors: "embedding: id".
at::Tensor checked_ids(std::string_view what, const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored = {});

}  // namespace weft
