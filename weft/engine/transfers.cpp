#include "weft/engine/transfers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/nn/host_values.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/upload.h"

namespace weft {

namespace {

constexpr int64_t kHeaderNumbers = 128;
constexpr int kInputs = std::numeric_limits<int>::max();  // stands for a block whose output is the model's inputs

// True if tensors can be copied into the layouts announced to the receiver.
bool fit(const std::vector<TensorShape>& announced, const std::vector<TensorShape>& own) {
  return std::equal(announced.begin(), announced.end(), own.begin(), own.end(), [](const TensorShape& x, const TensorShape& y) {
    return x.dtype == y.dtype && x.layout.sizes == y.layout.sizes &&
           (x.layout.strides == y.layout.strides || x.layout.has_distinct_places());
  });
}

// A header's numbers: the tensor count; for each tensor its type, whether it comes from the host, whether it gets a gradient,
// dimension count, sizes and strides.
std::vector<int64_t> header_of(const std::vector<TensorShape>& shapes) {
  std::vector<int64_t> numbers = {static_cast<int64_t>(shapes.size())};
  for (const auto& [dtype, layout, from_host, gets_gradient] : shapes) {
    numbers.push_back(static_cast<int64_t>(dtype));
    numbers.push_back(from_host ? 1 : 0);
    numbers.push_back(gets_gradient ? 1 : 0);
    numbers.push_back(static_cast<int64_t>(layout.sizes.size()));
    numbers.insert(numbers.end(), layout.sizes.begin(), layout.sizes.end());
    numbers.insert(numbers.end(), layout.strides.begin(), layout.strides.end());
  }
  return numbers;
}

std::vector<TensorShape> read_header(const int64_t* numbers) {
  std::vector<TensorShape> shapes(static_cast<size_t>(*numbers++));
  for (auto& [dtype, layout, from_host, gets_gradient] : shapes) {
    dtype = static_cast<at::ScalarType>(*numbers++);
    from_host = *numbers++ != 0;
    gets_gradient = *numbers++ != 0;
    const int64_t dims = *numbers++;
    layout.sizes.assign(numbers, numbers + dims);
    layout.strides.assign(numbers + dims, numbers + 2 * dims);
    numbers += 2 * dims;
  }
  return shapes;
}

/// The same memory as real numbers, which every library sends.
at::Tensor real(const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x; }

std::string shape_text(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", type_and_shape(tensor));
  }
  return text;
}

/// Several works and the tensors they need until done.
class All : public Work::State {
 public:
  All(std::vector<Work> works, Tensors tensors) : works_(std::move(works)), tensors_(std::move(tensors)) {}
  void wait() override {
    for (Work& work : works_) work.wait();
    works_.clear();
    tensors_.clear();
  }

 private:
  std::vector<Work> works_;
  Tensors tensors_;
};

}  // namespace

struct Transfers::Incoming {
  int peer = 0;
  int block = -1;  ///< block of the activation, or kInputs: selects the header with the shapes
  std::string what;
  Tensors tensors;                    ///< received tensors; some may be undefined
  std::vector<MemoryLayout> layouts;  ///< of the tensors; empty: contiguous
  bool marks_defined = false;         ///< the last tensor marks which others are defined
  Tensors on_host;                    ///< values that come from the host, by tensor; undefined: they do not
  Tensors* result = nullptr;          ///< destination; null: discarded
  std::vector<Work> works;
  bool started = false, done = false;
};

class Transfers::Receiving : public Work::State {
 public:
  Receiving(Transfers& transfers, std::shared_ptr<Incoming> message) : transfers_(transfers), message_(std::move(message)) {}
  void wait() override { transfers_.finish(message_); }

 private:
  Transfers& transfers_;
  std::shared_ptr<Incoming> message_;
};

Transfers::Transfers(const Group& pipeline, at::Device device, bool marks_defined)
    : pipeline_(pipeline), device_(device), marks_defined_(marks_defined), uses_host_(pipeline.moves_host_tensors()) {}

void Transfers::begin_step(bool keeps_shapes) {
  if (!keeps_shapes || !in_steps_) {
    begin();
    in_steps_ = true;
  }
  keeps_shapes_ = keeps_shapes;
  begin_messages();
}

void Transfers::begin() {
  in_steps_ = keeps_shapes_ = false;
  sent_shapes_.clear();
  received_shapes_.clear();
  begin_messages();
}

void Transfers::begin_messages() {
  incoming_.clear();
  sent_gradients_.clear();
  sent_batches_.clear();
}

Transfers::Shapes Transfers::shapes_of(const Tensors& tensors) const {
  Shapes shapes;
  for (const at::Tensor& x : tensors) {
    const bool is_known = x.scalar_type() == at::kLong && x.is_contiguous() && noted_values(x).defined();
    shapes.push_back({x.scalar_type(), layout_of(x), is_known && uses_host_, x.requires_grad()});
  }
  return shapes;
}

Work Transfers::send(int peer, const Tensors& tensors, const std::string& what) {
  std::vector<Work> works;
  Tensors sent;
  for (const at::Tensor& tensor : tensors) {
    sent.push_back(real(tensor.detach().contiguous()));
    works.push_back(pipeline_.send(sent.back(), peer, what));
  }
  if (std::all_of(works.begin(), works.end(), [](const Work& work) { return work.empty(); })) return {};  // nothing to keep
  return Work(std::make_shared<All>(std::move(works), std::move(sent)));
}

Work Transfers::send_activation(int peer, int block, const Tensors& tensors, const std::string& what) {
  const Shapes shapes = shapes_of(tensors);
  const auto [announced, is_new] = sent_shapes_.try_emplace({peer, block}, shapes);
  if (!is_new && !fit(announced->second, shapes)) {
    throw InputError(fmt::format("{}: {} differs from the {} in shape or in shared memory; {}", what, shape_text(tensors),
                                 keeps_shapes_ ? "first step's" : "step's first micro-batch",
                                 keeps_shapes_
                                     ? "set Model::shapes_vary if shapes change from step to step; all of a step must match"
                                     : "all of a step must match"));
  }
  Tensors elements;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorShape& shape = announced->second[i];
    if (tensors[i].requires_grad() && !shape.gets_gradient) {
      throw InputError(
          fmt::format("{}: tensor {} depends on parameters in this micro-batch, but not in the first one, so that the "
                      "other stage sends no gradient for it; let it depend on them always",
                      what, i));
    }
    elements.push_back(shape.from_host ? host_values(tensors[i]) : places_of(tensors[i], shape.layout));
  }
  if (!is_new) return send(peer, elements, what);
  const std::vector<int64_t> numbers = header_of(shapes);
  if (static_cast<int64_t>(numbers.size()) > kHeaderNumbers) {
    throw InputError(
        fmt::format("{}: {} tensors are too many, or have too many dimensions, to send to another stage; output fewer", what,
                    tensors.size()));
  }
  at::Tensor header = at::zeros({kHeaderNumbers}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), header.data_ptr<int64_t>());
  header = upload(header, device_);
  std::vector<Work> works = {pipeline_.send(header, peer, "shape of " + what)};
  works.push_back(send(peer, elements, what));
  return Work(std::make_shared<All>(std::move(works), Tensors{header}));
}

// The wait cannot block on a receive deferred by add(): before the first gradient every stage has run its first forward, so all
// shapes are known; and verify() has checked that no rank deadlocks even if every send waits for its receive.
Work Transfers::send_gradient(int peer, int block, const Tensors& tensors, const std::string& what) {
  const Shapes& shapes = received_shapes_.at({peer, block});
  Tensors sent_now;
  at::Tensor which = at::zeros({static_cast<int64_t>(shapes.size())}, at::kByte);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& [dtype, layout, from_host, gets_gradient] = shapes[i];
    if (!at::isFloatingType(dtype)) continue;
    which.mutable_data_ptr<uint8_t>()[i] = tensors[i].defined() ? 1 : 0;
    const at::Tensor gradient = tensors[i].defined() ? tensors[i] : make_tensor(layout, options(dtype)).zero_();
    sent_now.push_back(places_of(gradient, gradient_layout(layout)));
  }
  if (marks_defined_) sent_now.push_back(upload(which, device_));
  Work& sent = sent_gradients_[peer];
  sent.wait();
  return sent = send(peer, sent_now, what);
}

Work Transfers::receive_activation(int peer, int block, Tensors& result, const std::string& what) {
  auto message = std::make_shared<Incoming>();
  message->peer = peer;
  message->block = block;
  message->what = what;
  message->result = &result;
  return add(peer, std::move(message));
}

Work Transfers::receive_gradient(int peer, int block, Tensors& result, const std::string& what) {
  auto message = std::make_shared<Incoming>();
  message->peer = peer;
  message->what = what;
  message->result = &result;
  for (const auto& [dtype, layout, from_host, gets_gradient] : sent_shapes_.at({peer, block})) {
    message->layouts.push_back(gradient_layout(layout));
    message->tensors.push_back(at::isFloatingType(dtype) ? make_tensor(message->layouts.back(), options(dtype)) : at::Tensor());
  }
  message->marks_defined = marks_defined_;
  if (marks_defined_) {
    const auto count = static_cast<int64_t>(message->tensors.size());
    message->layouts.push_back({{count}, {1}});
    message->tensors.push_back(make_tensor(message->layouts.back(), options(at::kByte)));
  }
  return add(peer, std::move(message));
}

// The wait cannot block on a receive that is deferred forever: a rank that is sent inputs waits for them, or for later
// messages, before it sends anything.
Work Transfers::send_batch(int peer, const Tensors& inputs, const std::string& what) {
  Work& sent = sent_batches_[peer];
  sent.wait();
  return sent = send_activation(peer, kInputs, inputs, what);
}

Work Transfers::receive_batch(int peer, Tensors& result, const std::string& what) {
  return receive_activation(peer, kInputs, result, what);
}

Work Transfers::receive_known(int peer, Tensors tensors, const std::string& what) {
  auto message = std::make_shared<Incoming>();
  message->peer = peer;
  message->what = what;
  message->tensors = std::move(tensors);
  return add(peer, std::move(message));
}

// Receives start in order; one with unknown shapes, and all behind it, start when waited for. On a device they share a queue
// with the sends, so the program's order is kept there at the cost of a wait.
Work Transfers::add(int peer, std::shared_ptr<Incoming> message) {
  auto& queue = incoming_[peer];
  queue.push_back(message);
  while (!queue.empty() &&
         (!device_.is_cpu() || queue.front()->block < 0 || received_shapes_.count({peer, queue.front()->block}) != 0)) {
    const std::shared_ptr<Incoming> next = queue.front();
    queue.pop_front();
    start(*next);
  }
  return Work(std::make_shared<Receiving>(*this, std::move(message)));
}

void Transfers::receive_shapes(const Incoming& message) {
  at::Tensor header = at::zeros({kHeaderNumbers}, at::TensorOptions(at::kLong).device(device_));
  pipeline_.receive(header, message.peer, "shape of " + message.what).wait();
  header = header.cpu();
  pipeline_.throw_if_failed();  // an abort ends the wait, and leaves zeros
  const auto* numbers = header.const_data_ptr<int64_t>();
  received_shapes_[{message.peer, message.block}] = read_header(numbers);
}

void Transfers::start(Incoming& message) {
  if (message.block >= 0) {
    if (received_shapes_.count({message.peer, message.block}) == 0) receive_shapes(message);
    for (const auto& [dtype, layout, from_host, gets_gradient] : received_shapes_[{message.peer, message.block}]) {
      message.layouts.push_back(layout);
      message.tensors.push_back(make_tensor(layout, options(dtype)));
      message.on_host.emplace_back();
      if (!from_host) continue;
      refuse_captured_values(device_);
      message.on_host.back() = at::empty(layout.sizes, at::TensorOptions(dtype).pinned_memory(true));
    }
  }
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const at::Tensor& tensor = message.tensors[i];
    if (!tensor.defined()) continue;
    at::Tensor places = message.layouts.empty() ? tensor : places_of(tensor, message.layouts[i]);
    if (i < message.on_host.size() && message.on_host[i].defined()) places = message.on_host[i];
    message.works.push_back(pipeline_.receive(real(places), message.peer, message.what));
  }
  message.started = true;
}

void Transfers::finish(const std::shared_ptr<Incoming>& message) {
  if (message->done) return;
  auto& queue = incoming_[message->peer];
  while (!message->started) {
    const std::shared_ptr<Incoming> next = queue.front();
    queue.pop_front();
    start(*next);
  }
  for (Work& work : message->works) work.wait();
  for (size_t i = 0; i < message->on_host.size(); ++i) {
    const at::Tensor& values = message->on_host[i];
    if (!values.defined()) continue;
    message->tensors[i].copy_(values, /*non_blocking=*/true);
    note_host_values(message->tensors[i], values);
  }
  if (message->marks_defined) {
    const at::Tensor defined = message->tensors.back().cpu();
    pipeline_.throw_if_failed();
    message->tensors.pop_back();
    for (size_t i = 0; i < message->tensors.size(); ++i) {
      if (defined.const_data_ptr<uint8_t>()[i] == 0) message->tensors[i].reset();
    }
  }
  if (message->block >= 0) {
    const Shapes& shapes = received_shapes_.at({message->peer, message->block});
    for (size_t i = 0; i < shapes.size(); ++i) message->tensors[i].requires_grad_(shapes[i].gets_gradient);
  }
  if (message->result != nullptr) *message->result = std::move(message->tensors);
  message->tensors.clear();
  message->on_host.clear();
  message->works.clear();
  message->done = true;
}

}  // namespace weft
