#include "weft/checked_device/recorder.h"

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

namespace weft::checked_device {

namespace {

constexpr size_t kMostRecorders = 64;

std::array<std::atomic<Recorder*>, kMostRecorders>& recorders() {
  static auto& all = *new std::array<std::atomic<Recorder*>, kMostRecorders>{};
  return all;
}

std::atomic<int> active_recorders = 0;

at::Tensor alias_of(const at::Tensor& tensor) {
  if (!is_on_device(tensor)) return tensor;
  auto alias = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()),
                                                        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  alias._set_conj(tensor.is_conj());
  alias._set_neg(tensor.is_neg());
  return alias;
}

void put_back(const at::Tensor& recorded, const at::Tensor& now, int actor, const char* what) {
  if (!is_on_device(recorded) || recorded.is_alias_of(now)) return;
  await_movements(allocation_of(recorded), /*writes=*/true);
  {
    const std::lock_guard lock(order_mutex());
    const Access access{actor, clock_of(actor).of(static_cast<size_t>(actor)), what, 0};
    check_access(allocation_of(recorded), ranges_of(recorded), true, access);
  }
  on_cpu(recorded).copy_(on_cpu(now));
}

}  // namespace

Recorder* recorder_on(int device) { return recorders().at(static_cast<size_t>(device)); }
bool records() { return active_recorders > 0; }

Recorder::Recorder(int device, Recording::Rules rules) : rules_(rules), origin_(current_stream(device)) {
  const std::lock_guard lock(order_mutex());
  actors_.insert(actor_of(origin_));
  first_new_ = last_allocation() + 1;
  Recorder* expected = nullptr;
  TORCH_CHECK(recorders().at(static_cast<size_t>(device)).compare_exchange_strong(expected, this), "checked device: device ",
              device, " is recorded already");
  ++active_recorders;
}

void Recorder::end() {
  const std::lock_guard lock(order_mutex());
  if (recorder_on(device()) != this) return;
  recorders().at(static_cast<size_t>(device())) = nullptr;
  --active_recorders;
  if (!is_graph()) return;
  const Clock& last = clock_of(actor_of(origin_));
  for (const int actor : actors_) {
    const auto index = static_cast<size_t>(actor);
    if (clock_of(actor).of(index) > last.of(index)) refuse(fmt::format("its end does not wait for {}", actor_name(actor)));
  }
}

void Recorder::refuse(const std::string& what) const {
  violate(fmt::format("device {} is recorded as a graph: {}", device(), what), /*may_throw=*/true);
}

void Recorder::add(std::string text, std::function<void()> again) {
  add_on(current_stream(device()), std::move(text), std::move(again));
}

void Recorder::add_on(const c10::Stream& stream, std::string text, std::function<void()> again) {
  if (is_graph() && !has(actor_of(stream))) {
    refuse(fmt::format("{} is given to {}, which has not waited for it", text, actor_name(actor_of(stream))));
  }
  entries_.push_back({std::move(text), stream, std::move(again)});
}

void Recorder::note_wait(int later, bool earlier_is_recorded) {
  if (!is_graph()) return;
  if (earlier_is_recorded) {
    actors_.insert(later);
  } else if (has(later)) {
    refuse(fmt::format("{} waits for work from before", actor_name(later)));
  }
}

std::string Recorder::text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream out;
  out << tensor.scalar_type() << " " << tensor.sizes();
  if (!tensor.is_contiguous()) out << " by " << tensor.strides();
  if (!is_on_device(tensor)) {
    if (tensor.is_cpu() && tensor.dim() == 0) out << " = " << c10::IValue(tensor.item());
    return out.str();
  }
  const Allocation& allocation = allocation_of(tensor);
  if (allocation.number < first_new_) {
    out << " memory " << allocation.number;
  } else {
    out << " new " << made_.try_emplace(&allocation, made_.size()).first->second;
  }
  out << " + " << elements_before(tensor) + tensor.storage_offset();
  return out.str();
}

std::string Recorder::text_of(const c10::IValue& value) {
  if (value.isTensor()) return text_of(value.toTensor());
  if (value.isTensorList() || value.isOptionalTensorList()) {
    std::string all;
    for (const c10::IValue& element : value.toListRef()) all += (all.empty() ? "(" : ", ") + text_of(element);
    return all + ")";
  }
  std::ostringstream out;
  if (value.isGenerator()) {
    out << "a generator";
  } else if (value.isStorage()) {
    out << "a storage";
  } else {
    out << value;
  }
  return out.str();
}

c10::IValue alias_of(const c10::IValue& value) {
  if (value.isTensor()) return alias_of(value.toTensor());
  if (value.isTensorList()) {
    std::vector<at::Tensor> list = value.toTensorVector();
    for (at::Tensor& tensor : list) tensor = alias_of(tensor);
    return c10::List<at::Tensor>(list);
  }
  if (value.isOptionalTensorList()) {
    std::vector<std::optional<at::Tensor>> list = value.toOptionalTensorVector();
    for (std::optional<at::Tensor>& tensor : list) {
      if (tensor.has_value()) tensor = alias_of(*tensor);
    }
    return c10::List<std::optional<at::Tensor>>(list);
  }
  return value;
}

void put_back(const c10::IValue& recorded, const c10::IValue& now, int actor, const char* what) {
  if (recorded.isTensor()) return put_back(recorded.toTensor(), now.toTensor(), actor, what);
  if (!recorded.isTensorList()) return;
  const std::vector<at::Tensor> to = recorded.toTensorVector(), from = now.toTensorVector();
  for (size_t i = 0; i < to.size(); ++i) put_back(to[i], from.at(i), actor, what);
}

std::shared_ptr<Clock> record_event(const c10::Stream& stream) {
  Recorder* recorder = records() ? recorder_on(stream.device_index()) : nullptr;
  const int actor = actor_of(stream);
  if (recorder == nullptr || (recorder->is_graph() && !recorder->has(actor))) return nullptr;
  auto clock = std::make_shared<Clock>(clock_of(actor));
  recorder->add_on(stream, "an event", [clock, actor] { *clock = clock_now(actor); });
  return recorder->is_graph() ? clock : nullptr;
}

void record_wait(const c10::Stream& stream, const std::shared_ptr<Clock>& in_graph) {
  Recorder* recorder = records() ? recorder_on(stream.device_index()) : nullptr;
  if (recorder == nullptr) return;
  const int actor = actor_of(stream);
  recorder->note_wait(actor, in_graph != nullptr);
  if (recorder->is_graph() && in_graph == nullptr) return;
  recorder->add_on(stream, "a wait for an event", [in_graph, actor] { join(actor, *in_graph); });
}

struct Recording::State {
  Recorder recorder;
  bool was_replayed = false;
};

Recording::Recording(int device, Rules rules) : state_(new State{.recorder = Recorder(device, rules)}) {}

Recording::~Recording() {
  try {
    state_->recorder.end();
  } catch (const c10::Error&) {  // kept among the violations
  }
}

void Recording::end() { state_->recorder.end(); }

std::vector<std::string> Recording::entries() const {
  std::vector<std::string> all;
  for (const Recorder::Entry& entry : state_->recorder.entries()) all.push_back(entry.text);
  return all;
}

void Recording::replay() {
  Recorder& recorder = state_->recorder;
  TORCH_CHECK(recorder.is_graph(), "checked device: replay() of a recording without the rules of a graph");
  TORCH_CHECK(recorder_on(recorder.device()) == nullptr, "checked device: replay() while device ", recorder.device(),
              " is recorded");
  const c10::Stream caller = current_stream(recorder.device());
  const int origin = actor_of(recorder.origin()), now = actor_of(caller);
  {
    const std::lock_guard lock(order_mutex());
    begin_launch(now, "graph");
    join(origin, clock_of(now));
  }
  if (std::exchange(state_->was_replayed, true)) {
    const Uncounted uncounted;
    const auto back = c10::make_scope_exit([&] { exchange_stream(caller); });
    for (const Recorder::Entry& entry : recorder.entries()) {
      if (!entry.again) continue;
      exchange_stream(entry.stream);
      entry.again();
    }
  }
  const std::lock_guard lock(order_mutex());
  join(now, clock_of(origin));
}

}  // namespace weft::checked_device
