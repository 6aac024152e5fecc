// A device of LibTorch (PrivateUse1, "checked") that computes at once in the host's memory and checks the order that was asked
// for: each stream, each event and the host have a vector clock, so that a missing wait, use after free or touch from the host
// is an error that names both operators, the same in every run. For tests of code that is written for GPUs, without one.
//
// Works with libtorch_cpu alone. Values have the CPU's bits, since each operator runs the CPU's kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::checked_device {

/// Of install().
struct Options {
  int devices = 4;  ///< 1 to 64
  /// Bytes per device, after the caching allocator's rounding; more throws c10::OutOfMemoryError. 0: no limit.
  size_t memory_limit = 0;
  /// Fills new memory with 0xff: NaN in floating point, -1 in integers.
  bool poison = true;
  /// Addresses per device, none used twice. Less under sanitizers, which need addresses for themselves.
  size_t address_bytes = size_t{1} << 43;
};

/// Registers the device with LibTorch as c10::DeviceType::PrivateUse1; `at::Device("checked:1")` names one. Once per process,
/// before other threads use LibTorch. Throws c10::Error if it is called twice or another library has registered a device.
void install(const Options& options = {});

/// What was wrong, in order, since the last call. Errors that could be thrown where they arose were thrown as well; those in
/// destructors could not.
std::vector<std::string> take_violations();

/// Whether a violation throws where it arises (true), or is only kept for take_violations().
void set_throws(bool throws);

/// What devices have been given.
struct Counts {
  uint64_t launches = 0;          ///< operators that a GPU would run as kernels
  uint64_t synchronisations = 0;  ///< of the host with a device
  uint64_t stalls = 0;            ///< of those, waits after which the thread's current device has nothing left to do
  uint64_t copies = 0;            ///< between host and device, or two devices
  uint64_t copied_bytes = 0;      ///< by those
  uint64_t copies_beside = 0;     ///< of those, on another stream than the device's default one
  uint64_t stream_waits = 0;      ///< of a stream for an event
  uint64_t allocations = 0;       ///< of memory of a device
  uint64_t communicators = 0;     ///< made by the first call of a group or pair (nccl_rules.h), for which the host waits
};

/// Counts on all devices since the start or reset_counts(), by the innermost Label at the time; "" without one.
std::map<std::string, Counts> counts();
/// Starts counts(), launches() and synchronisations() again.
void reset_counts();

/// Launches since reset_counts(), by operator: "aten::addmm".
std::map<std::string, uint64_t> launches();

/// Who asked the host to wait, since reset_counts(): operator or call ("aten::_local_scalar_dense", "a wait for an event"), and
/// the label.
std::map<std::string, uint64_t> synchronisations();

/// Names this thread's work until the end of its scope, in counts() and violations: an instruction, a step.
class Label {
 public:
  /// Until the end of the scope, which may lie in another's.
  explicit Label(std::string name);
  ~Label();
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;

 private:
  std::string outer_;
};

/// Until the end of its scope, work of this thread belongs to one device: allocations on another, or another current device at
/// the end, are violations.
class OwnDevice {
 public:
  /// Makes the device current.
  explicit OwnDevice(int device);
  ~OwnDevice();
  OwnDevice(const OwnDevice&) = delete;
  OwnDevice& operator=(const OwnDevice&) = delete;

 private:
  int outer_;
};

/// What a device is given, in order, from its making to end(): by default every operator with its arguments, every copy and
/// every wait, so that two runs of a step can be compared.
class Recording {
 public:
  /// What may be recorded.
  enum class Rules {
    none,   ///< everything
    graph,  ///< what a CUDA graph may hold: the work of the current stream and of streams that wait for it, and which it waits
            ///< for by the end; no copy from or to the host, no wait of the host, no generator of LibTorch's. Else a violation
  };
  explicit Recording(int device, Rules rules = Rules::none);  ///< begins
  ~Recording();                                               ///< ends it, if end() has not
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void end();  ///< no more entries; throws if a graph's streams have not been waited for
  /// A line each. Memory made since the start is named by the order of its first use, other memory by its number.
  std::vector<std::string> entries() const;
  /// Gives the device the same operators again, on the same memory, behind the current stream: one launch. The device computes
  /// while it records, so the first call does nothing else. Memory used by the recording stays until it is destroyed.
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What orders work or places it, each kind counted by device.
enum class Ordering {
  wait,           ///< a stream waits for an event, or for a call of NCCL's (Work::wait)
  record_stream,  ///< record_stream()
  synchronise,    ///< the host waits for an event, a stream, the device, or a copy of pinned memory that is not `non_blocking`
  set_device,     ///< a thread's current device becomes this one: by a guard, at a guard's end, or by set_device
};

/// How many of these a device has been given since the start.
uint64_t orderings(Ordering kind, int device);

/// For mutation tests of the code under test: `count` of these from the `first`-th on, counted from 0 and from now, do nothing.
/// Replaces what was to be dropped before.
void drop_orderings(Ordering kind, int device, uint64_t first, uint64_t count);

/// Memory of a device in use.
struct Memory {
  size_t allocated = 0;       ///< bytes, rounded as by CUDA's caching allocator
  size_t peak_allocated = 0;  ///< its highest value since the start or reset_peak_memory()
};
/// Of a device, now.
Memory memory(int device);
/// Lets peak_allocated start at what is in use.
void reset_peak_memory(int device);

/// As Options::memory_limit, for allocations from now on.
void set_memory_limit(size_t bytes);

}  // namespace weft::checked_device
