#include "weft/engine/pinned_store.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "weft/engine/host_store.h"

namespace weft {

namespace {

/// What a stream has been given by now. Where nobody has waited for it, the stream that asked waits at the end: the memory that
/// arrives is its own to use again.
class Arrival : public Work::State {
 public:
  explicit Arrival(const c10::Stream& stream) : event_(stream.device_type()), caller_(current_stream(stream.device())) {
    event_.record(stream);
  }
  ~Arrival() override {
    try {
      if (!is_awaited_) event_.block(caller_);
    } catch (const std::exception&) {  // of the device, which a call before has reported
    }
  }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  void wait() override {
    event_.block(current_stream(caller_.device()));
    is_awaited_ = true;
  }

 private:
  c10::Event event_;
  c10::Stream caller_;
  bool is_awaited_ = false;
};

class PinnedStore : public HostStore {
 public:
  explicit PinnedStore(const CopyStreams& streams)
      : HostStore(/*pinned=*/true), streams_(streams), ready_(type()), sent_(type()), used_(type()) {}
  ~PinnedStore() override {
    try {
      settles_ ? settle() : recycle();
    } catch (const std::exception&) {  // of the device, which a call before has reported
    }
  }
  PinnedStore(const PinnedStore&) = delete;
  PinnedStore& operator=(const PinnedStore&) = delete;

  void put(int room, const at::Tensor& tensor) override {
    if (tensor.is_cpu()) {
      await_copies();
      return HostStore::put(room, tensor);
    }
    ready_.record(current());
    ready_.block(streams_.to_host);
    copy(room, streams_.to_host, [&] { HostStore::put(room, tensor); });
    sent_.record(streams_.to_host);
    is_sending_ = true;
  }

  void get(int room, const at::Tensor& tensor) override {
    if (tensor.is_cpu()) {
      await_copies();
      return HostStore::get(room, tensor);
    }
    if (current() != streams_.from_host) {  // on which the memory may still be in use
      ready_.record(current());
      ready_.block(streams_.from_host);
    }
    copy(room, streams_.from_host, [&] { HostStore::get(room, tensor); });
  }

  std::optional<c10::Stream> arrivals() const override { return streams_.from_host; }
  Work arrived() override { return Work(std::make_shared<Arrival>(streams_.from_host)); }

  void retire(const at::Tensor& tensor) override {
    if (!tensor.defined() || tensor.is_cpu()) return;
    retired_.push_back(tensor);
    used_.record(current());
  }
  void settle() override {
    settles_ = true;
    if (!retired_.empty() && std::exchange(is_sending_, false)) sent_.block(current());
    retired_.clear();
  }
  void recycle() override {
    settles_ = false;
    if (!retired_.empty()) used_.block(streams_.from_host);
    if (!retired_.empty() && std::exchange(is_sending_, false)) sent_.block(streams_.from_host);
    retired_.clear();
  }

 private:
  /// The latest copy of a buffer.
  struct Copied {
    explicit Copied(const c10::Stream& on) : event(on.device_type()), stream(on) {}
    c10::Event event;
    c10::Stream stream;
  };

  c10::DeviceType type() const { return streams_.to_host.device_type(); }
  c10::Stream current() const { return current_stream(streams_.to_host.device()); }

  /// Copies on `stream` after the buffer's copies on the other one.
  template <typename Copy>
  void copy(int room, const c10::Stream& stream, const Copy& begin) {
    if (static_cast<size_t>(room) >= copied_.size()) copied_.resize(static_cast<size_t>(room) + 1);
    std::unique_ptr<Copied>& last = copied_[static_cast<size_t>(room)];
    if (!last) last = std::make_unique<Copied>(stream);
    if (last->stream != stream) last->event.block(stream);
    const c10::StreamGuard guard(stream);
    begin();
    last->event.record(stream);
    last->stream = stream;
  }

  /// The host copies tensors of its own, such as ones that blocks on a device pass on, after the device's copies.
  void await_copies() const {
    const c10::Device device = streams_.to_host.device();
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }

  CopyStreams streams_;
  c10::Event ready_;                             ///< of the current stream, before a copy
  c10::Event sent_;                              ///< the latest put()
  c10::Event used_;                              ///< of the current stream, at the latest retire()
  bool is_sending_ = false;                      ///< nothing has waited for the latest put()
  bool settles_ = false;                         ///< rather than recycles
  std::vector<std::unique_ptr<Copied>> copied_;  ///< by buffer; null: never
  std::vector<at::Tensor> retired_;
};

}  // namespace

std::unique_ptr<OffloadStore> pinned_offload(const CopyStreams& streams) { return std::make_unique<PinnedStore>(streams); }

}  // namespace weft
