#include "weft/comm/shm/channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "weft/comm/shm/wait.h"

namespace weft::shm {

std::pair<std::byte*, size_t> Channels::Message::rest() {
  if (in_record()) return {reinterpret_cast<std::byte*>(&record) + moved, sizeof(CallRecord) - moved};
  const size_t done = moved - sizeof(CallRecord);
  return {static_cast<std::byte*>(tensor.data_ptr()) + done, tensor.nbytes() - done};
}

/// A message that did not finish immediately.
class Channels::Moving : public Work::State {
 public:
  Moving(Channels& channels, Blocked kind, std::shared_ptr<Message> message)
      : channels_(channels), kind_(kind), message_(std::move(message)) {}
  void wait() override {
    if (message_->done()) return;
    channels_.wait(kind_, message_->call, [this] {
      kind_ == Blocked::sending ? channels_.push(message_->peer) : channels_.pull(message_->peer);
      return message_->done();
    });
  }

 private:
  Channels& channels_;
  Blocked kind_;
  std::shared_ptr<Message> message_;
};

Channels::Channels(Members& members, RingMemory memory)
    : members_(members), memory_(memory), outgoing_(members.size()), incoming_(members.size()) {
  members_.push_pending = [this] {
    move_all();
    return pending();
  };
  members_.nothing_in_flight = [this](int peer) {
    const Ring& to_peer = ring(members_.rank(), peer);
    return outgoing_[peer].empty() && to_peer.written.load() == to_peer.read.load();
  };
}

Ring& Channels::ring(int from, int to) const {
  const size_t stride = sizeof(Ring) + memory_.ring_bytes;
  return *reinterpret_cast<Ring*>(memory_.base + (static_cast<size_t>(from) * members_.size() + to) * stride);
}

std::byte* Channels::ring_data(int from, int to) const { return reinterpret_cast<std::byte*>(&ring(from, to)) + sizeof(Ring); }

bool Channels::pending() const {
  return std::any_of(outgoing_.begin(), outgoing_.end(), [](const auto& queue) { return !queue.empty(); });
}

size_t Channels::write(int peer, const std::byte* data, size_t bytes) {
  Ring& to = ring(members_.rank(), peer);
  std::byte* memory = ring_data(members_.rank(), peer);
  const uint64_t written = to.written.load(std::memory_order_relaxed);
  const size_t room = memory_.ring_bytes - (written - to.read.load(std::memory_order_acquire));
  const size_t count = std::min(bytes, room);
  const size_t begin = written % memory_.ring_bytes;
  const size_t first = std::min(count, memory_.ring_bytes - begin);
  std::memcpy(memory + begin, data, first);
  std::memcpy(memory, data + first, count - first);
  if (count > 0) to.written.store(written + count, std::memory_order_release);
  return count;
}

size_t Channels::read(int peer, std::byte* data, size_t bytes) {
  Ring& from = ring(peer, members_.rank());
  const std::byte* memory = ring_data(peer, members_.rank());
  const uint64_t done = from.read.load(std::memory_order_relaxed);
  const size_t there = from.written.load(std::memory_order_acquire) - done;
  // Copies in parts, so that the sender can refill the ring meanwhile.
  const size_t count = std::min({bytes, there, std::max<size_t>(memory_.ring_bytes / 4, 1)});
  const size_t begin = done % memory_.ring_bytes;
  const size_t first = std::min(count, memory_.ring_bytes - begin);
  std::memcpy(data, memory + begin, first);
  std::memcpy(data + first, memory, count - first);
  if (count > 0) {
    from.read.store(done + count, std::memory_order_release);
    ring_doorbell(peer);
  }
  return count;
}

void Channels::ring_doorbell(int peer) const {
  RankBlock& block = members_.block(peer);
  block.doorbell.fetch_add(1);
  if (block.asleep.load() != 0) wake_all(block.doorbell);
}

bool Channels::push(int peer) {
  bool any = false;
  Queue& queue = outgoing_[peer];
  while (!queue.empty()) {
    Message& message = *queue.front();
    const auto [data, left] = message.rest();
    const size_t count = write(peer, data, left);
    message.moved += count;
    any |= count > 0;
    if (message.done()) {
      queue.pop_front();
    } else if (count < left) {
      break;
    }
  }
  if (any) ring_doorbell(peer);
  return any;
}

bool Channels::pull(int peer) {
  bool any = false;
  Queue& queue = incoming_[peer];
  while (!queue.empty()) {
    const std::shared_ptr<Message> message = queue.front();
    const auto [data, left] = message->rest();
    const size_t count = read(peer, data, left);
    message->moved += count;
    any |= count > 0;
    if (count > 0 && message->moved == sizeof(CallRecord)) check_record(*message);
    if (message->done()) {
      queue.pop_front();
    } else if (count == 0) {
      break;
    }
  }
  return any;
}

bool Channels::move_all() {
  bool any = false;
  for (int peer = 0; peer < members_.size(); ++peer) {
    any |= !outgoing_[peer].empty() && push(peer);
    any |= !incoming_[peer].empty() && pull(peer);
  }
  return any;
}

void Channels::check_record(const Message& message) const {
  if (matches_receive(message.record, message.call)) return;
  members_.fail(-1, describe_mismatch(members_.axis(), message.record, message.call));
}

std::shared_ptr<Channels::Message> Channels::make_message(const Call& call, const at::Tensor& tensor) {
  auto message = std::make_shared<Message>();
  message->call = call;
  message->what = call.what;
  message->call.what = message->what;
  message->tensor = tensor;
  message->peer = call.root;
  return message;
}

Work Channels::send(const Call& call, const at::Tensor& tensor) {
  members_.throw_if_failed();
  auto message = make_message(call, tensor);
  write_record(message->record, call, 0);
  outgoing_[call.root].push_back(message);
  move_all();
  if (message->done()) return {};
  return Work(std::make_shared<Moving>(*this, Blocked::sending, std::move(message)));
}

Work Channels::receive(const Call& call, const at::Tensor& tensor) {
  members_.throw_if_failed();
  auto message = make_message(call, tensor);
  incoming_[call.root].push_back(message);
  move_all();
  if (message->done()) return {};
  return Work(std::make_shared<Moving>(*this, Blocked::receiving, std::move(message)));
}

// Waits until advance() returns true, calling it after each ring of the doorbell.
void Channels::wait(Blocked kind, const Call& call, const std::function<bool()>& advance) {
  RankBlock& own = members_.block(members_.rank());
  if (look_for(members_.spin(), advance)) return;
  std::optional<Members::Wait> stalled;
  while (true) {
    move_all();
    own.asleep.store(1);
    const uint32_t seen = own.doorbell.load();
    const bool done = advance();
    if (!done) sleep_on(own.doorbell, seen, kCheckEvery);
    own.asleep.store(0);
    if (done) return;
    // Progress starts a new wait, with a new deadline and no sightings of contradicting waits.
    if (own.doorbell.load() != seen) stalled.reset();
    if (!stalled) stalled.emplace(members_, kind, call.root, call);
    stalled->check();
  }
}

}  // namespace weft::shm
