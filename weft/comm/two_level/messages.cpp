#include "weft/comm/two_level/messages.h"

#include <ATen/ops/zeros.h>

#include <cstring>

#include "weft/base/error.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/c10d/tags.h"
#include "weft/comm/call/call_record.h"

namespace weft {
namespace {

at::Tensor blank_record() { return at::zeros({static_cast<int64_t>(sizeof(CallRecord))}, at::kByte); }

at::Tensor flat_bytes(const at::Tensor& data) { return data.view({-1}).view(at::kByte); }

}  // namespace

Messages::Messages(c10::intrusive_ptr<c10d::Backend> engine, Axis axis)
    : engine_(std::move(engine)), axis_(std::move(axis)), greeted_(axis_.ranks.size()) {}

void Messages::begin(const Call& call, uint64_t number) {
  CallRecord record;
  write_record(record, call, number);
  own_ = blank_record();
  std::memcpy(own_.data_ptr(), &record, sizeof record);
  greeted_.assign(greeted_.size(), false);
  records_.clear();
  sends_.clear();
}

Messages::Pending Messages::start_send(int peer, at::Tensor data, int tag) {
  std::vector<at::Tensor> tensors{std::move(data)};
  return start_call([&] { return engine_->send(tensors, peer, tag); });
}

void Messages::greet(int peer) {
  if (greeted_[peer]) return;
  greeted_[peer] = true;
  sends_.emplace_back(own_, start_send(peer, own_, kCollectiveRecordTag));
}

void Messages::expect(int peer) {
  if (records_.count(peer) != 0) return;
  Record& record = records_[peer];
  record.bytes = blank_record();
  std::vector<at::Tensor> tensors{record.bytes};
  record.pending = start_call([&] { return engine_->recv(tensors, peer, kCollectiveRecordTag); });
}

void Messages::send(int peer, const at::Tensor& data) {
  greet(peer);
  if (data.numel() > 0) sends_.emplace_back(data, start_send(peer, flat_bytes(data), collective_tag(data.nbytes())));
}

Messages::Pending Messages::receive(int peer, const at::Tensor& data) {
  expect(peer);
  if (data.numel() == 0) return nullptr;
  std::vector<at::Tensor> tensors{flat_bytes(data)};
  return start_call([&] { return engine_->recv(tensors, peer, collective_tag(data.nbytes())); });
}

void Messages::check(int peer) {
  Record& record = records_.at(peer);
  if (!record.pending) return;
  record.pending->wait();
  record.pending = nullptr;
  CallRecord mine, theirs;
  std::memcpy(&mine, own_.const_data_ptr(), sizeof mine);
  std::memcpy(&theirs, record.bytes.const_data_ptr(), sizeof theirs);
  if (match(mine, theirs)) return;
  const bool first = axis_.index < peer;
  throw CommError(first ? describe_mismatch(axis_, axis_.index, mine, peer, theirs)
                        : describe_mismatch(axis_, peer, theirs, axis_.index, mine));
}

void Messages::wait(int peer, const Pending& data) {
  check(peer);
  if (data) data->wait();
}

void Messages::finish() {
  for (const auto& [peer, record] : records_) check(peer);
  for (const auto& [data, pending] : sends_) pending->wait();
  sends_.clear();
}

}  // namespace weft
