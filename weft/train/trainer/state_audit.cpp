#include "weft/train/trainer/state_audit.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/train/trainer/replicas.h"
#include "weft/train/trainer/state_digests.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

const char* name(AuditKind kind) {
  switch (kind) {
    case AuditKind::replicas:
      return "replicas";
    case AuditKind::memory:
      return "memory";
    case AuditKind::calls:
      return "calls";
  }
  return "";
}

namespace {

class StateAudit final : public Audit {
 public:
  explicit StateAudit(TrainerState& trainer) : Audit(std::make_shared<CallAudit>(trainer.options.seed)), trainer_(trainer) {}

  void begin() override;
  void before_change(int block) override;
  void end() override;
  void cancel() override {
    is_on_ = false;
    calls_->end();
  }

 private:
  struct AtRest {
    std::string tensor;
    uint64_t digest = 0;
  };
  void verify(int block);
  void take_calls();
  std::string tensor_at(const void* place) const;

  TrainerState& trainer_;
  bool is_on_ = false;
  std::map<uint64_t, AtRest> at_rest_;  ///< by key, of the step
  std::set<int> verified_;              ///< blocks
  std::vector<AuditFinding> found_;     ///< on this rank
};

void StateAudit::begin() {
  at_rest_.clear();
  verified_.clear();
  found_.clear();
  is_on_ = true;
  calls_->begin(trainer_.steps_done + 1);
  if (!trainer_.options.communication.device.is_cpu()) return;  // updates are launched there
  for_each_held(trainer_, [this](const HeldPart& held) {
    if (held.is_updated) at_rest_[held.key()] = {held.part.name, digest_of(held.part)};
  });
}

void StateAudit::before_change(int block) {
  if (!is_on_ || at_rest_.empty()) return;
  if (block >= 0) return verify(block);
  if (trainer_.options.layout.offload_optimizer != Offload::none) return;  // not in memory now: each block before its update
  for (int b = 0; b < trainer_.model->num_blocks(); ++b) {
    if (trainer_.model->owns(b)) verify(b);
  }
}

/// Of a block that is in memory.
void StateAudit::verify(int block) {
  if (!trainer_.model->flat(block).master.defined() || !verified_.insert(block).second) return;
  for_each_updated(trainer_, block, [this](const HeldPart& held) {
    const auto before = at_rest_.find(held.key());
    if (before == at_rest_.end() || before->second.digest == digest_of(held.part)) return;
    const int rank = trainer_.mesh.world().rank();
    found_.push_back({.kind = AuditKind::memory,
                      .tensor = held.part.name,
                      .ranks = {rank},
                      .is_sure = true,
                      .text = fmt::format("'{}': bits changed in the memory of rank {} during the step, before its update",
                                          held.part.name, rank)});
  });
}

/// The parameter at an address of a flat buffer, and its element.
std::string StateAudit::tensor_at(const void* place) const {
  FlatModel& model = *trainer_.model;
  const auto* at = static_cast<const char*>(place);
  const auto within = [&](const at::Tensor& memory, int64_t& element) {
    if (!memory.defined() || memory.numel() == 0 || !memory.is_cpu()) return false;
    const auto* begin = static_cast<const char*>(memory.const_data_ptr());
    if (at < begin || at >= begin + memory.nbytes()) return false;
    element = (at - begin) / static_cast<int64_t>(memory.element_size());
    return true;
  };
  for (int block = 0; block < model.num_blocks() && place; ++block) {
    if (!model.holds(block)) continue;
    const FlatBlock& flat = model.flat(block);
    int64_t element = 0;
    bool found = within(flat.gradients, element) || within(flat.weights, element);
    if (!found && within(flat.owned_gradients, element)) {
      element += flat.owned.begin;
      found = true;
    }
    for (const int index : flat.params) {
      const Param& param = model.params()[index];
      if (!found || param.group == ParamGroup::frozen || element < param.offset || element >= param.offset + param.numel)
        continue;
      return param.name;
    }
  }
  return {};
}

void StateAudit::take_calls() {
  for (CallFinding& finding : calls_->take()) {
    const std::string name = tensor_at(finding.at);
    found_.push_back({.kind = AuditKind::calls,
                      .tensor = name,
                      .ranks = finding.ranks,
                      .is_sure = finding.ranks.size() == 1,
                      .is_harmless = finding.is_harmless,
                      .text = name.empty() ? finding.text : fmt::format("'{}' in {}", name, finding.text)});
  }
}

void StateAudit::end() {
  if (!std::exchange(is_on_, false)) return;
  take_calls();
  std::vector<PartDigest> digests;
  for_each_held(trainer_, [&](const HeldPart& held) {
    digests.push_back({held.part.name, held.sharing, held.key(), digest_of(held.part)});
  });
  report_.step = trainer_.steps_done;
  report_.findings = compare_replicas(trainer_, digests, found_);
  if (report_.findings.empty()) report_.last_clean = report_.step;
}

}  // namespace

std::unique_ptr<Audit> make_audit(TrainerState& trainer) { return std::make_unique<StateAudit>(trainer); }

}  // namespace weft
