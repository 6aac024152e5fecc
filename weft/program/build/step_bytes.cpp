#include "weft/program/build/step_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/program/limits.h"

namespace weft {
namespace {

void check_block(const ModelCost& model, size_t b) {
  const BlockCost& block = model.blocks[b];
  const auto refuse = [&](const std::string& text) {
    throw InputError(fmt::format("model '{}', block {} '{}': {}", model.name, b, block.name, text));
  };
  for (const int64_t numel : {block.numel, block.frozen_numel}) {
    if (numel < 0 || numel > kMostElements) refuse(fmt::format("{} elements, must be 0 to {}", numel, kMostElements));
  }
  for (const int64_t bytes : {block.saved_bytes, block.output_bytes, block.forward_peak_bytes, block.backward_peak_bytes,
                              block.deferred_bytes, block.input_peak_bytes, block.weight_peak_bytes}) {
    if (bytes < 0 || bytes > kMostBytes) {
      refuse(
          fmt::format("{} bytes per micro-batch, must be 0 to {}; use smaller micro-batches (batch.micro)", bytes, kMostBytes));
    }
  }
}

// Bytes sent by these calls; NaN if a call has invalid bytes.
double bytes_of(const std::vector<InnerCall>& calls) {
  double bytes = 0.0;
  for (const InnerCall& call : calls) bytes += call.wire_bytes < 0 ? std::nan("") : static_cast<double>(call.wire_bytes);
  return bytes;
}

// Bytes of calls inside blocks and the loss, per micro-batch; forward may run twice.
double inner_bytes(const ModelCost& model) {
  double bytes = bytes_of(model.loss_calls);
  for (const BlockCost& block : model.blocks) {
    const InnerCalls& calls = block.calls;
    bytes += 2.0 * bytes_of(calls.forward) + bytes_of(calls.backward) + bytes_of(calls.input) + bytes_of(calls.weight);
  }
  return bytes;
}

// Elements with gradients (tied weights once per use), and frozen weights, padded.
double count_elements(const ModelCost& model, int shards) {
  double elements = 0.0;
  for (const BlockCost& block : model.blocks) {
    elements += static_cast<double>(padded_numel(block.numel, shards));
    elements += static_cast<double>(padded_numel(block.frozen_numel, shards));
    for (const int used : block.uses) elements += static_cast<double>(padded_numel(model.blocks[used].numel, shards));
  }
  return elements;
}

// Bytes of everything a micro-batch allocates, on all ranks: kept activations, outputs and gradients, received ones too.
double activation_bytes(const ModelCost& model) {
  double bytes = 2.0 * static_cast<double>(model.input_bytes);
  for (const BlockCost& block : model.blocks) {
    bytes += static_cast<double>(block.saved_bytes) + 4.0 * static_cast<double>(block.output_bytes) +
             static_cast<double>(block.deferred_bytes);
  }
  return bytes;
}

// Bytes of weights and gradients gathered and reduced, per micro-batch and at the end of the step.
double sent_bytes(double elements, const StepLayout& layout) {
  double each = 0.0;
  if (layout.shard_level == ShardLevel::parameters) each += 2.0 * layout.weight_bytes;
  if (layout.shard_level >= ShardLevel::gradients) each += layout.gradient_bytes;
  const double to_others = layout.master ? layout.pp * static_cast<double>(layout.weight_bytes + layout.gradient_bytes) : 0.0;
  return elements * (each * layout.micro_batches + to_others + 4.0 * layout.gradient_bytes + layout.weight_bytes);
}

}  // namespace

void check_step_bytes(const ModelCost& model, const StepLayout& layout) {
  for (size_t b = 0; b < model.blocks.size(); ++b) check_block(model, b);
  for (const int64_t bytes : {model.input_bytes, model.upload_bytes, model.loss_peak_bytes}) {
    if (bytes >= 0 && bytes <= kMostBytes) continue;
    throw InputError(fmt::format("model '{}': its input or its loss has {} bytes per micro-batch, must be 0 to {}", model.name,
                                 bytes, kMostBytes));
  }
  const double inner = inner_bytes(model) * layout.micro_batches;
  if (!(inner <= static_cast<double>(kMostBytes))) {
    throw InputError(
        fmt::format("model '{}': a step of {} micro-batches sends {:.1e} bytes inside blocks, must be 0 to {:.1e}; "
                    "use smaller micro-batches (batch.micro), or fewer",
                    model.name, layout.micro_batches, inner, static_cast<double>(kMostBytes)));
  }
  const double elements = count_elements(model, layout.shard_level == ShardLevel::none ? 1 : layout.shard);
  if (elements > static_cast<double>(kMostElements)) {
    throw InputError(
        fmt::format("model '{}': its {} blocks have {:.1e} elements, more than the {:.1e} that can be counted; use "
                    "fewer or smaller blocks",
                    model.name, model.blocks.size(), elements, static_cast<double>(kMostElements)));
  }
  const int at_a_time = layout.pp > 1 ? layout.micro_batches : 1;
  const double activations = activation_bytes(model) * at_a_time;
  const double sent = sent_bytes(elements, layout);
  if (activations + sent + inner <= static_cast<double>(kMostBytes)) return;
  throw InputError(
      fmt::format("layout: a step of {} micro-batches per rank holds up to {:.1e} bytes of activations and sends up to {:.1e} "
                  "of weights and gradients, more than the {:.1e} that can be counted; use {} (batch.micro, batch.global) or a "
                  "smaller model",
                  layout.micro_batches, activations, sent, static_cast<double>(kMostBytes),
                  activations > sent ? "fewer samples" : "fewer micro-batches"));
}

}  // namespace weft
