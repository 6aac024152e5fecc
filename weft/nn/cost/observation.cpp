#include "weft/nn/cost/observation.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "weft/nn/cost/flops.h"
#include "weft/nn/cost/launched_work.h"
#include "weft/nn/cost/launches.h"
#include "weft/nn/each_tensor.h"

namespace weft {

namespace {

thread_local Observation* observation = nullptr;  // the dispatcher's observer takes no argument

/// A call that runs. A convolution's operations depend on its output, which exists only afterwards, and its weight, which is
/// visible only before.
struct Running : at::ObserverContext {
  bool is_launch = false;
  PassOperators work;    ///< of a launch by itself
  at::Tensor convolved;  ///< a convolution's weight
};

/// Arguments that do not fit have no cost: the operator, which has not checked them yet, refuses them.
void with_fitting(c10::function_ref<void()> call) {
  try {
    call();
  } catch (const c10::Error&) {
  }
}

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& fn) {
  if (!observation) return nullptr;
  with_fitting([&] { observation->flops += flops_of(fn); });
  const std::string& kernel = launch_of(fn);
  const bool is_convolution = std::string_view(fn.name()) == "aten::convolution";
  if (kernel.empty() && !is_convolution) return nullptr;
  auto running = std::make_unique<Running>();
  if (is_convolution) with_fitting([&] { running->convolved = fn.inputs()[1].toTensor(); });
  running->is_launch = !kernel.empty();
  if (running->is_launch && observation->running++ == 0) {
    ++observation->launches[kernel];
    with_fitting([&] { running->work = work_before(fn); });
  }
  return running;
}

void after(const at::RecordFunction& fn, at::ObserverContext* context) {
  if (!observation) return;
  for (const c10::IValue& output : fn.outputs()) {
    each_tensor(output, [](const at::Tensor& made) { observation->observe(made.storage().unsafeGetStorageImpl()); });
  }
  observation->peak_bytes = std::max(observation->peak_bytes, observation->live_bytes());
  auto* running = static_cast<Running*>(context);
  if (!running) return;
  complete_work(running->work, fn);
  for (const OperatorWork& work : running->work) add_operator(observation->operators, work);
  if (running->is_launch) --observation->running;
  if (running->convolved.defined() && !fn.outputs().empty())
    observation->flops += convolution_flops(fn.outputs()[0].toTensor(), running->convolved);
}

}  // namespace

int64_t Observation::live_bytes() const {
  int64_t bytes = 0;
  for (const auto& weak : made) {
    if (const auto storage = weak.lock()) bytes += bytes_in(*storage);
  }
  return bytes;
}

void Observation::observe(c10::StorageImpl* storage) {
  if (parameters.count(storage) != 0 || inputs.count(storage) != 0) return;
  std::erase_if(made, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : made) {
    if (weak.lock().get() == storage) return;
  }
  made.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
}

double flops_so_far() { return observation ? observation->flops : 0.0; }

Observer::Observer(Observation& seen)
    : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(before, after)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {
  observation = &seen;
}

Observer::~Observer() {
  at::removeCallback(handle_);
  observation = nullptr;
}

}  // namespace weft
