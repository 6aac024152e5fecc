#include "weft/engine/keyed_calls.h"

#include <fmt/format.h>

#include "weft/nn/keyed_generators.h"

namespace weft {

namespace {

RandomKey key_of(const Context& context, const std::string& name, const std::string& part) {
  const std::string text = fmt::format("{}@{}{}{}", name, context.first_sample, part, context.training ? "" : " evaluated");
  return random_key(context.seed, text, context.step);
}

}  // namespace

void keyed_call(const FlatModel& model, int block, const Context& context, const std::string& part,
                c10::function_ref<void()> call) {
  const std::string& name = model.model().blocks[block].name;
  const std::string own = random_name_of(model.block(block));
  const RandomKey key = key_of(context, own.empty() ? name : own, part);
  with_keyed_generators(key, fmt::format("block '{}'", name), model.options().device, call);
}

void keyed_loss_call(const FlatModel& model, const Context& context, const std::string& part, c10::function_ref<void()> call) {
  with_keyed_generators(key_of(context, "the loss", part), "the loss", model.options().device, call);
}

}  // namespace weft
