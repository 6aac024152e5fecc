// flipping: a group in which one bit flips on the way, in a call of one rank.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/group.h"

namespace weft::test {

/// The bit that flips.
struct Flip {
  int call = -1;           ///< calls that move elements before it; below 0: none
  bool delivered = false;  ///< in what the call delivers, not in what it is given
  int64_t element = 0;
  int bit = 0;
};

class FlippingBackend final : public Backend {
 public:
  FlippingBackend(const Group& group, const Axis& axis, std::shared_ptr<Flip> flip)
      : Backend(axis), group_(group), flip_(std::move(flip)) {}
  std::string_view kind() const override { return group_.backend(); }
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    return around(tensor, tensor, [&] { return group_.all_reduce(tensor, op, what); });
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    return around(input, output, [&] { return group_.reduce_scatter(output, input, op, what); });
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return around(input, output, [&] { return group_.all_gather(output, input, what); });
  }
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    return around(tensor, tensor, [&] { return group_.broadcast(tensor, root, what); });
  }
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return around(input, output, [&] { return group_.all_to_all(output, input, what); });
  }
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override {
    return around(tensor, tensor, [&] { return group_.send(tensor, peer, what); });
  }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    return around(tensor, tensor, [&] { return group_.receive(tensor, peer, what); });
  }
  Work barrier(std::string_view what) override { return group_.barrier(what); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    return group_.allocate(numel, dtype, what);
  }

 private:
  void flip(const at::Tensor& tensor) const {
    auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
    const int64_t byte = flip_->element * static_cast<int64_t>(tensor.element_size()) + flip_->bit / 8;
    bytes[byte] ^= static_cast<unsigned char>(1 << flip_->bit % 8);
  }
  Work around(const at::Tensor& given, const at::Tensor& delivered, const std::function<Work()>& call) {
    const bool flips = flip_->call-- == 0;
    if (flips && !flip_->delivered) flip(given);
    Work work = call();
    if (!flips || !flip_->delivered) return work;
    work.wait();
    flip(delivered);
    return {};
  }

  Group group_;
  std::shared_ptr<Flip> flip_;
};

/// `flip` may be set again between calls.
inline Group flipping(const Group& group, const Axis& axis, std::shared_ptr<Flip> flip) {
  return Group(std::make_shared<FlippingBackend>(group, axis, std::move(flip)));
}

}  // namespace weft::test
