#include "weft/comm/store/peer.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "weft/base/uninterrupted.h"

namespace weft {

int64_t Peer::receive(size_t most) {
  const size_t before = in_.size();
  in_.resize(before + most);
  const ssize_t count = uninterrupted([&] { return ::recv(fd(), in_.data() + before, most, MSG_DONTWAIT); });
  in_.resize(before + static_cast<size_t>(count > 0 ? count : 0));
  if (count > 0) return count;
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

void Peer::take_off(size_t bytes) {
  taken_ += bytes;
  if (taken_ < in_.size() && taken_ < 4096) return;
  in_.erase(0, taken_);
  if (in_.empty()) std::string().swap(in_);  // an idle connection holds no memory
  taken_ = 0;
}

void Peer::send(std::string head, std::shared_ptr<const std::string> body) {
  unsent_ += head.size() + (body ? body->size() : 0);
  out_.push_back({std::move(head), std::move(body)});
}

int64_t Peer::flush() {
  int64_t total = 0;
  while (!out_.empty()) {
    const Part& first = out_.front();
    std::string_view pieces[2] = {first.head, first.body ? std::string_view(*first.body) : std::string_view()};
    size_t skip = sent_of_first_;
    std::array<iovec, 2> vectors{};
    for (size_t i = 0; i < 2; ++i) {
      const size_t off = std::min(skip, pieces[i].size());
      skip -= off;
      vectors[i] = {const_cast<char*>(pieces[i].data()) + off, pieces[i].size() - off};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = vectors.size();
    const ssize_t count = uninterrupted([&] { return ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? total : -1;
    total += count;
    unsent_ -= static_cast<size_t>(count);
    sent_of_first_ += static_cast<size_t>(count);
    if (sent_of_first_ == pieces[0].size() + pieces[1].size()) {
      out_.pop_front();
      sent_of_first_ = 0;
    }
  }
  return total;
}

}  // namespace weft
