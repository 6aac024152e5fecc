#include "weft/comm/audit/audited_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <utility>

#include "weft/base/bits_digest.h"
#include "weft/comm/audit/element.h"
#include "weft/comm/audit/sum_check.h"
#include "weft/comm/call/backend.h"

namespace weft {
namespace {

uint64_t digest_of(const at::Tensor& tensor) { return bits_digest(tensor.const_data_ptr(), tensor.nbytes()); }

int64_t as_number(uint64_t digest) { return static_cast<int64_t>(digest); }

/// A message and its digest, on the way.
class Sending : public Work::State {
 public:
  Sending(Work message, Work second, at::Tensor digest)
      : message_(std::move(message)), second_(std::move(second)), digest_(std::move(digest)) {}
  void wait() override {
    message_.wait();
    second_.wait();
  }

 private:
  Work message_, second_;
  at::Tensor digest_;
};

class Receiving : public Work::State {
 public:
  Receiving(Work message, Work second, at::Tensor tensor, at::Tensor digest, std::function<void()> report)
      : message_(std::move(message)),
        second_(std::move(second)),
        tensor_(std::move(tensor)),
        digest_(std::move(digest)),
        report_(std::move(report)) {}
  void wait() override {
    message_.wait();
    second_.wait();
    if (!tensor_.defined()) return;
    if (as_number(digest_of(tensor_)) != *digest_.const_data_ptr<int64_t>()) report_();
    tensor_.reset();
  }

 private:
  Work message_, second_;
  at::Tensor tensor_, digest_;
  std::function<void()> report_;
};

/// Passes calls on to a group; while the audit is on, checks them.
class AuditedBackend final : public Backend {
 public:
  AuditedBackend(const Group& group, const Axis& axis, std::shared_ptr<CallAudit> audit)
      : Backend(axis), group_(group), audit_(std::move(audit)) {}

  std::string_view kind() const override { return group_.backend(); }

  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    if (!audits(tensor)) return group_.all_reduce(tensor, op, what);
    const at::Tensor parts = tensor.clone().view({-1}), again = parts.clone();
    group_.all_reduce(tensor, op, what).wait();
    group_.all_reduce(again, op, what).wait();
    check_sum({.parts = parts,
               .result = tensor.view({-1}),
               .again = again,
               .begin = 0,
               .op = op,
               .place = tensor.const_data_ptr(),
               .what = what},
              group_, axis(), calls_++, *audit_);
    return {};
  }

  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    if (!audits(input)) return group_.reduce_scatter(output, input, op, what);
    const at::Tensor parts = input.clone().view({-1}), values = parts.clone(), again = at::empty_like(output);
    const void* place = input.const_data_ptr();
    group_.reduce_scatter(output, input, op, what).wait();
    group_.reduce_scatter(again, values, op, what).wait();
    check_sum({.parts = parts,
               .result = output.view({-1}),
               .again = again.view({-1}),
               .begin = shard_range(parts.numel(), size(), rank()).begin,
               .is_scattered = true,
               .op = op,
               .place = place,
               .what = what},
              group_, axis(), calls_++, *audit_);
    return {};
  }

  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    if (!audits(output)) return group_.all_gather(output, input, what);
    const uint64_t own = digest_of(input);
    group_.all_gather(output, input, what).wait();
    const at::Tensor digests = gather_rows(group_, {as_number(own)}, "audit of parts");
    const at::Tensor flat = output.view({-1});
    for (int from = 0; from < size(); ++from) {
      const ShardRange range = shard_range(flat.numel(), size(), from);
      check_part(flat.narrow(0, range.begin, range.end - range.begin), digests.const_data_ptr<int64_t>()[from], from, what);
    }
    return {};
  }

  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    if (!audits(tensor)) return group_.broadcast(tensor, root, what);
    const uint64_t own = digest_of(tensor);
    group_.broadcast(tensor, root, what).wait();
    const at::Tensor digests = gather_rows(group_, {as_number(own)}, "audit of a broadcast");
    check_part(tensor.view({-1}), digests.const_data_ptr<int64_t>()[root], root, what);
    return {};
  }

  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    if (!audits(input)) return group_.all_to_all(output, input, what);
    const at::Tensor digests = at::empty({size()}, at::kLong), theirs = at::empty({size()}, at::kLong);
    const at::Tensor given = input.view({-1}), taken = output.view({-1});
    for (int to = 0; to < size(); ++to) {
      const ShardRange range = shard_range(given.numel(), size(), to);
      digests.mutable_data_ptr<int64_t>()[to] = as_number(digest_of(given.narrow(0, range.begin, range.end - range.begin)));
    }
    group_.all_to_all(output, input, what).wait();
    group_.all_to_all(theirs, digests, "audit of parts").wait();
    const int64_t each = taken.numel() / size();
    for (int from = 0; from < size(); ++from) {
      check_part(taken.narrow(0, from * each, each), theirs.const_data_ptr<int64_t>()[from], from, what);
    }
    return {};
  }

  Work send(const at::Tensor& tensor, int peer, std::string_view what) override {
    if (!audits(tensor)) return group_.send(tensor, peer, what);
    at::Tensor digest = at::empty({1}, at::kLong);
    *digest.mutable_data_ptr<int64_t>() = as_number(digest_of(tensor));
    Work message = group_.send(tensor, peer, what), second = group_.send(digest, peer, "digest of a message");
    if (message.empty() && second.empty()) return {};
    return Work(std::make_shared<Sending>(std::move(message), std::move(second), std::move(digest)));
  }

  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    if (!audits(tensor)) return group_.receive(tensor, peer, what);
    at::Tensor digest = at::empty({1}, at::kLong);
    Work message = group_.receive(tensor, peer, what), second = group_.receive(digest, peer, "digest of a message");
    auto report = [this, tensor, peer, name = std::string(what)] { report_part(tensor, peer, name); };
    return Work(
        std::make_shared<Receiving>(std::move(message), std::move(second), tensor, std::move(digest), std::move(report)));
  }

  Work barrier(std::string_view what) override { return group_.barrier(what); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    return group_.allocate(numel, dtype, what);
  }
  bool moves_host_tensors() const override { return group_.moves_host_tensors(); }
  void throw_if_failed() override { group_.throw_if_failed(); }
  void settle() override { group_.settle(); }
  void replayed(std::string_view what) override { group_.replayed({}, what); }
  void explain(const std::exception& error, std::string_view what) override { group_.explain(error, what); }
  int64_t memory_bytes() const override { return group_.memory_bytes(); }

 private:
  bool audits(const at::Tensor& tensor) const { return audit_->is_on() && tensor.is_cpu(); }

  void check_part(const at::Tensor& part, int64_t digest, int from, std::string_view what) {
    if (as_number(digest_of(part)) != digest) report_part(part, from, what);
  }

  void report_part(const at::Tensor& part, int from, std::string_view what) {
    const int sender = axis().ranks[from], own = axis().ranks[rank()];
    audit_->add({fmt::format("\"{}\" on group \"{}\" ({}): what rank {} gave arrived with other bits on rank {}", what, name(),
                             kind(), sender, own),
                 {own, sender},
                 part.const_data_ptr()});
  }

  Group group_;
  std::shared_ptr<CallAudit> audit_;
  uint64_t calls_ = 0;  ///< audited
};

}  // namespace

Group audited(const Group& group, const Axis& axis, at::Device device, std::shared_ptr<CallAudit> audit) {
  if (group.size() == 1 || !device.is_cpu()) return group;
  return Group(std::make_shared<AuditedBackend>(group, axis, std::move(audit)));
}

}  // namespace weft
